#include "convert/pointer_file.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/error.h"
#include "core/hash.h"
#include "formats/npz.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

constexpr const char* kExpected =
    "Expected: features [N, L, 7 or 8], order [N, L] padded with -1 and optionally lengths [N]; or "
    "values [R, 7 or 8], offsets [N + 1] and order [R]";

[[noreturn]] void refuse(const std::string& what) { throw DataError(what + ". " + kExpected); }

void check_width(const formats::NpzArray& array, const char* name, size_t rank) {
  const std::vector<int64_t>& shape = array.header().shape;
  if (shape.size() == rank &&
      (shape.back() == kPointerFeatures || shape.back() == kPointerFeatures - 1))
    return;
  refuse(str("its array ", name, " has the shape ", array.header().shape_text()));
}

}  // namespace

PointerFile::PointerFile(const std::filesystem::path& file, bool with_order) {
  const formats::NpzFile archive(file);
  const bool padded = archive.has("features"), has_order = archive.has("order");
  if (padded && archive.has("values")) refuse("it has both features and values");
  if (!padded && !archive.has("values")) refuse(archive.contents());
  if (padded)
    read_padded(file);
  else
    read_ragged(file);
  if (with_order || (padded && !lengths_ && has_order)) read_order(file);
  splits_ = splits_in(file, sets());
}

void PointerFile::read_padded(const std::filesystem::path& file) {
  values_ = formats::NpzArray::open(file, "features");
  check_width(*values_, "features", 3);
  const std::vector<int64_t>& shape = values_->header().shape;
  if (shape[1] == 0)
    refuse(str("its array features has the shape ", values_->header().shape_text()));
  sets_ = shape[0];
  padded_room_ = shape[1];
  width_ = shape[2];
  lengths_ = NpzColumn::open(file, "lengths", sets_);
}

void PointerFile::read_ragged(const std::filesystem::path& file) {
  values_ = formats::NpzArray::open(file, "values");
  check_width(*values_, "values", 2);
  width_ = values_->header().shape[1];
  const int64_t rows = values_->header().shape[0];
  offsets_ = NpzColumn::open(file, "offsets", -1);
  if (!offsets_ || offsets_->size() == 0) refuse("it has values but no offsets");
  int64_t last = 0;
  bool rises = (*offsets_)[0] == 0;
  offsets_->for_each([&](int64_t offset) {
    rises = rises && offset >= last;
    last = offset;
  });
  if (!rises || last != rows)
    refuse(str("its offsets do not rise from 0 to ", rows, ", the number of rows of values"));
  sets_ = offsets_->size() - 1;
}

void PointerFile::read_order(const std::filesystem::path& file) {
  order_ = formats::NpzArray::open(file, "order");
  if (!order_) refuse("it has no order");
  const std::vector<int64_t>& shape = order_->header().shape;
  if (offsets_) {
    static_cast<void>(NpzColumn::open(file, "order", values_->header().shape[0]));
    return;
  }
  if (shape.size() != 2 || shape[0] != sets()) {
    refuse(str("its array order has the shape ", order_->header().shape_text(), ", expected [",
               sets(), ", L]"));
  }
  for_each_int64(*order_, "order", [](int64_t) {});  // throws if one is not a whole number
  padded_order_room_ = shape[1];
}

int64_t PointerFile::first_row(int64_t set) const {
  return offsets_ ? (*offsets_)[static_cast<size_t>(set)] : set * padded_room_;
}

int64_t PointerFile::room(int64_t set) const {
  return offsets_ ? (*offsets_)[static_cast<size_t>(set) + 1] - first_row(set) : padded_room_;
}

int64_t PointerFile::stated_length(int64_t set) const {
  if (offsets_ || (!lengths_ && !order_)) return room(set);
  if (lengths_) return (*lengths_)[static_cast<size_t>(set)];
  const std::vector<int64_t> order = order_->to_int64(set * padded_order_room_, padded_order_room_);
  return std::find(order.begin(), order.end(), -1) - order.begin();  // it ends at the first -1
}

int64_t PointerFile::length(int64_t set) const {
  const int64_t n = stated_length(set);
  return n > 0 && n <= room(set) ? n : 0;
}

void PointerFile::check_length(int64_t set) const {
  const int64_t n = stated_length(set), room = this->room(set);
  if (n == 0) throw DataError("a set with no elements");
  if (n < 0 || n > room)
    throw DataError(str("its length is ", n, ", the array has room for ", room, " elements"));
}

std::vector<float> PointerFile::features(int64_t set) const {
  check_length(set);
  const int64_t n = length(set);
  std::vector<float> result(static_cast<size_t>(n * kPointerFeatures));
  const std::vector<float> from = values_->to_float32(first_row(set) * width_, n * width_);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t f = 0; f < width_; ++f) {
      const float value = from[static_cast<size_t>(i * width_ + f)];
      if (!std::isfinite(value)) {
        throw DataError(str(std::isnan(value) ? "NaN" : "infinity (or a value beyond float32)",
                            " in element ", i, ", feature ", f));
      }
      result[static_cast<size_t>(i * kPointerFeatures + f)] = value;
    }
  }
  return result;
}

std::vector<int64_t> PointerFile::order(int64_t set) const {
  check_length(set);
  const int64_t n = length(set), order_room = offsets_ ? room(set) : padded_order_room_;
  if (n > order_room)
    throw DataError(str("has ", n, " elements, but order has room for ", order_room));
  std::vector<int64_t> result =
      order_->to_int64(offsets_ ? first_row(set) : set * order_room, order_room);
  const std::vector<int64_t> padding(result.begin() + n, result.end());
  result.resize(static_cast<size_t>(n));
  std::vector<bool> seen(static_cast<size_t>(n));
  for (const int64_t element : result) {
    if (element < 0 || element >= n || seen[static_cast<size_t>(element)]) {
      throw DataError(str("its order is not a permutation of 0 to ", n - 1, ": ", element,
                          element >= 0 && element < n ? " occurs twice" : " is out of range"));
    }
    seen[static_cast<size_t>(element)] = true;
  }
  for (const int64_t beyond : padding) {
    if (beyond != -1) {
      throw DataError(str("has ", n, " elements, but its order continues after them with ", beyond,
                          "; expected -1"));
    }
  }
  return result;
}

uint64_t PointerFile::checksum() const {
  const uint64_t sums[] = {values_->checksum(), offsets_ ? offsets_->checksum() : 0,
                           lengths_ ? lengths_->checksum() : 0, order_ ? order_->checksum() : 0};
  return xxh64(std::as_bytes(std::span(sums)));
}

}  // namespace dtrain::convert

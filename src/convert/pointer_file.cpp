#include "convert/pointer_file.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "convert/npz_columns.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/strings.h"

namespace dtrain::convert {
namespace {

constexpr const char* kExpected =
    "Expected: features [N, L, 7 or 8], order [N, L] padded with -1 and optionally lengths [N]; or values "
    "[R, 7 or 8], offsets [N + 1] and order [R]";

[[noreturn]] void refuse(const std::string& what) { throw DataError(what + ". " + kExpected); }

void check_width(const formats::NpyArray& array, const char* name, size_t rank) {
  const std::vector<int64_t>& shape = array.header.shape;
  if (shape.size() == rank && (shape.back() == kPointerFeatures || shape.back() == kPointerFeatures - 1)) return;
  refuse(str("its array ", name, " has the shape ", array.header.shape_text()));
}

}  // namespace

PointerFile::PointerFile(const std::filesystem::path& path, bool with_order) {
  const formats::NpzFile file(path);
  const std::optional<formats::NpyArray> features = file.read("features");
  const std::optional<formats::NpyArray> values = file.read("values");
  if (features && values) refuse("it has both features and values");
  if (!features && !values) refuse(str("its arrays are ", join(file.names(), ", ")));
  if (features)
    read_padded(file, *features);
  else
    read_ragged(file, *values);
  const bool no_lengths = features && length_.empty();
  const bool order_is_there = std::count(file.names().begin(), file.names().end(), "order") > 0;
  if (with_order || (no_lengths && order_is_there)) read_order(file, features.has_value());
  if (no_lengths) {  // a set ends at the first -1 of its order
    for (int64_t set = 0; set < sets(); ++set) {
      const auto at = static_cast<size_t>(set);
      int64_t length = room_[at];
      if (order_is_there) {
        const auto begin = order_.begin() + first_order_[at], end = begin + order_room_[at];
        length = std::find(begin, end, -1) - begin;
      }
      length_.push_back(length);
    }
  }
  split_ = split_names(file, sets());
}

void PointerFile::read_padded(const formats::NpzFile& file, const formats::NpyArray& features) {
  check_width(features, "features", 3);
  const std::vector<int64_t>& shape = features.header.shape;
  if (shape[1] == 0) refuse(str("its array features has the shape ", features.header.shape_text()));
  width_ = shape[2];
  values_ = features.to_float32();
  for (int64_t set = 0; set < shape[0]; ++set) {
    first_row_.push_back(set * shape[1]);
    room_.push_back(shape[1]);
  }
  if (auto lengths = whole_numbers(file, "lengths", shape[0])) length_ = std::move(*lengths);
}

void PointerFile::read_ragged(const formats::NpzFile& file, const formats::NpyArray& values) {
  check_width(values, "values", 2);
  width_ = values.header.shape[1];
  values_ = values.to_float32();
  const int64_t rows = values.header.shape[0];
  const auto offsets = whole_numbers(file, "offsets", -1);
  if (!offsets || offsets->empty()) refuse("it has values but no offsets");
  if (offsets->front() != 0 || offsets->back() != rows || !std::is_sorted(offsets->begin(), offsets->end())) {
    refuse(str("its offsets do not rise from 0 to ", rows, ", the number of rows of values"));
  }
  for (size_t i = 0; i + 1 < offsets->size(); ++i) {
    first_row_.push_back((*offsets)[i]);
    room_.push_back((*offsets)[i + 1] - (*offsets)[i]);
  }
  length_ = room_;
}

void PointerFile::read_order(const formats::NpzFile& file, bool padded) {
  if (!padded) {
    auto order = whole_numbers(file, "order", static_cast<int64_t>(values_.size()) / width_);
    if (!order) refuse("it has no order");
    order_ = std::move(*order);
    first_order_ = first_row_;
    order_room_ = room_;
    return;
  }
  const std::optional<formats::NpyArray> order = file.read("order");
  if (!order) refuse("it has no order");
  const std::vector<int64_t>& shape = order->header.shape;
  if (shape.size() != 2 || shape[0] != sets()) {
    refuse(str("its array order has the shape ", order->header.shape_text(), ", expected [", sets(), ", L]"));
  }
  try {
    order_ = order->to_int64();
  } catch (const DataError& error) {
    throw DataError(str("its array order: ", error.what()));
  }
  for (int64_t set = 0; set < sets(); ++set) first_order_.push_back(set * shape[1]);
  order_room_.assign(static_cast<size_t>(sets()), shape[1]);
}

int64_t PointerFile::length(int64_t set) const {
  const int64_t n = length_[static_cast<size_t>(set)];
  return n > 0 && n <= room_[static_cast<size_t>(set)] ? n : 0;
}

void PointerFile::check_length(int64_t set) const {
  const int64_t n = length_[static_cast<size_t>(set)], room = room_[static_cast<size_t>(set)];
  if (n == 0) throw DataError("a set with no elements");
  if (n < 0 || n > room) throw DataError(str("its length is ", n, ", the array has room for ", room, " elements"));
}

std::vector<float> PointerFile::features(int64_t set) const {
  check_length(set);
  const int64_t n = length(set);
  std::vector<float> result(static_cast<size_t>(n * kPointerFeatures));
  const float* from = values_.data() + first_row_[static_cast<size_t>(set)] * width_;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t f = 0; f < width_; ++f) {
      const float value = from[i * width_ + f];
      if (!std::isfinite(value)) {
        throw DataError(str(std::isnan(value) ? "NaN" : "infinity (or a value beyond float32)", " in element ", i,
                            ", feature ", f));
      }
      result[static_cast<size_t>(i * kPointerFeatures + f)] = value;
    }
  }
  return result;
}

std::vector<int64_t> PointerFile::order(int64_t set) const {
  check_length(set);
  const auto at = static_cast<size_t>(set);
  const int64_t n = length(set);
  if (n > order_room_[at]) throw DataError(str("has ", n, " elements, but order has room for ", order_room_[at]));
  const auto begin = order_.begin() + first_order_[at];
  std::vector<int64_t> result(begin, begin + n);
  std::vector<bool> seen(static_cast<size_t>(n));
  for (const int64_t element : result) {
    if (element < 0 || element >= n || seen[static_cast<size_t>(element)]) {
      throw DataError(str("its order is not a permutation of 0 to ", n - 1, ": ", element,
                          element >= 0 && element < n ? " occurs twice" : " is out of range"));
    }
    seen[static_cast<size_t>(element)] = true;
  }
  for (int64_t k = n; k < order_room_[at]; ++k) {
    if (begin[k] != -1) {
      throw DataError(str("has ", n, " elements, but its order continues after them with ", begin[k], "; expected -1"));
    }
  }
  return result;
}

std::string PointerFile::split(int64_t set) const { return split_.empty() ? "" : split_[static_cast<size_t>(set)]; }

uint64_t PointerFile::checksum() const {
  uint64_t sum = xxh64(std::as_bytes(std::span(values_)), static_cast<uint64_t>(width_));
  for (const auto* part : {&first_row_, &length_, &order_}) sum = xxh64(std::as_bytes(std::span(*part)), sum);
  return sum;
}

}  // namespace dtrain::convert

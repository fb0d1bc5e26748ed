#include "convert/npz_columns.h"

#include <algorithm>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

constexpr int64_t kPiece = 4096;  // elements that are in memory at once

}  // namespace

std::optional<NpzColumn> NpzColumn::open(const std::filesystem::path& file, const std::string& name,
                                         int64_t count) {
  std::shared_ptr<const formats::NpzArray> array = formats::NpzArray::open(file, name);
  if (!array) return std::nullopt;
  const std::vector<int64_t>& shape = array->header().shape;
  if (shape.size() != 1 || (count >= 0 && shape[0] != count)) {
    throw DataError(
        str("its array ", name, " has the shape ", array->header().shape_text(),
            count >= 0 ? str(", expected [", count, "]") : ", one dimension is expected"));
  }
  NpzColumn column(std::move(array), name);
  column.for_each([](int64_t) {});  // throws if one is not a whole number
  return column;
}

void NpzColumn::for_each(const std::function<void(int64_t)>& visit) const {
  for_each_int64(*array_, name_, visit);
}

void for_each_int64(const formats::NpzArray& array, const std::string& name,
                    const std::function<void(int64_t)>& visit) {
  const int64_t count = array.header().elements();
  for (int64_t first = 0; first < count; first += kPiece) {
    std::vector<int64_t> values;
    try {
      values = array.to_int64(first, std::min(kPiece, count - first));
    } catch (const DataError& error) {
      throw DataError(str("its array ", name, ": ", error.what()));
    }
    for (const int64_t value : values) visit(value);
  }
}

std::vector<Split> splits_in(const std::filesystem::path& file, int64_t samples) {
  std::vector<Split> splits;
  const std::optional<NpzColumn> column = NpzColumn::open(file, "split", samples);
  if (!column) return splits;
  splits.reserve(static_cast<size_t>(samples));
  column->for_each([&](int64_t value) {
    if (value < 0 || value >= static_cast<int64_t>(names_of(Split{}).size()) - 1) {
      throw DataError(
          str("its array split contains ", value, "; expected 0 (train), 1 (val) or 2 (test)"));
    }
    splits.push_back(static_cast<Split>(value + 1));
  });
  return splits;
}

}  // namespace dtrain::convert

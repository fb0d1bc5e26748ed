#include "convert/npz_columns.h"

#include <array>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::convert {

std::optional<std::vector<int64_t>> whole_numbers(const formats::NpzFile& file, const std::string& name,
                                                  int64_t count) {
  const std::optional<formats::NpyArray> array = file.read(name);
  if (!array) return std::nullopt;
  const std::vector<int64_t>& shape = array->header.shape;
  if (shape.size() != 1 || (count >= 0 && shape[0] != count)) {
    throw DataError(str("its array ", name, " has the shape ", array->header.shape_text(),
                        count >= 0 ? str(", expected [", count, "]") : ", one dimension is expected"));
  }
  try {
    return array->to_int64();
  } catch (const DataError& error) {
    throw DataError(str("its array ", name, ": ", error.what()));
  }
}

std::vector<std::string> split_names(const formats::NpzFile& file, int64_t samples) {
  constexpr std::array<const char*, 3> kSplits{"train", "val", "test"};
  std::vector<std::string> names;
  for (const int64_t value : whole_numbers(file, "split", samples).value_or(std::vector<int64_t>())) {
    if (value < 0 || value >= static_cast<int64_t>(kSplits.size())) {
      throw DataError(str("its array split contains ", value, "; expected 0 (train), 1 (val) or 2 (test)"));
    }
    names.emplace_back(kSplits[static_cast<size_t>(value)]);
  }
  return names;
}

}  // namespace dtrain::convert

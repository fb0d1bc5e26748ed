#include "data/convert/sequence_rows.h"

#include <cmath>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::data {

SequenceShape sequence_shape(const NpyHeader& header) {
  const std::vector<int64_t>& shape = header.shape;
  if (shape.size() != 1 && shape.size() != 2) {
    throw DataError(str("an array of shape ", header.shape_text(), "; a sequence is [T, F] or [T]"));
  }
  const SequenceShape result{.rows = shape[0], .features = shape.size() == 2 ? shape[1] : 1};
  if (result.rows == 0) throw DataError(str("a sequence of length 0 (shape ", header.shape_text(), ")"));
  if (result.features == 0) throw DataError(str("a sequence without features (shape ", header.shape_text(), ")"));
  return result;
}

std::vector<float> sequence_rows(const NpyArray& array, int64_t features) {
  const SequenceShape shape = sequence_shape(array.header);
  if (shape.features != features) {
    throw DataError(str("has ", shape.features, " features a row, the other sequences have ", features));
  }
  std::vector<float> values = array.to_float32();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const auto at = static_cast<int64_t>(i);
    throw DataError(str(std::isnan(values[i]) ? "NaN" : "infinity (or a value beyond float32)", " in row ",
                        at / features, ", feature ", at % features));
  }
  return values;
}

}  // namespace dtrain::data

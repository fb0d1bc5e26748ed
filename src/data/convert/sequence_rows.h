#pragma once

// An .npy file as one sequence: [T, F], or [T] as [T, 1], of the number types that npy.h reads.

#include <cstdint>
#include <vector>

#include "data/convert/npy.h"

namespace dtrain::data {

struct SequenceShape {
  int64_t rows = 0, features = 0;
};

// Throws DataError: no rows, no features, more than two dimensions.
SequenceShape sequence_shape(const NpyHeader&);

// rows × features, float32. Throws DataError also for another number of features and for NaN or infinity (with its
// place); finite float64 values beyond float32 count as infinite.
std::vector<float> sequence_rows(const NpyArray&, int64_t features);

}  // namespace dtrain::data

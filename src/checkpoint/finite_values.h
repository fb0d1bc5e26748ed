#pragma once

// Weights and running statistics that are not finite: everything that is computed from them is not
// finite either, or silently wrong. Pure functions that read a tensor once.

#include <torch/types.h>

#include <string>

namespace dtrain::checkpoint {

// The first value that is not finite, and where: "nan at [0, 3]"; "" if all are finite, as those of
// integers are.
std::string not_finite(const at::Tensor&);
// CheckpointError that names the tensor and the file, unless all its values are finite.
void check_finite(const at::Tensor&, const std::string& name, const std::string& file);

}  // namespace dtrain::checkpoint

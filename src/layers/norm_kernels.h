#pragma once

// Which GPU kernels compute batch norm in this process (kernels/batch_norm_gpu.h), and whether they
// can be trusted there.
//
// They have not run on every kind of GPU. Therefore the first tensor of each type starts a
// comparison with the definition of batch norm, on that GPU (batch_norm_check.h). If they disagree,
// a warning says so, and this process uses LibTorch's operators for that type.

#include <torch/types.h>

#include <optional>

#include "kernels/batch_norm_blocks.h"

namespace dtrain::layers {

struct NormKernels {
  kernels::batch_norm::blocks::Runner runner = kernels::batch_norm::blocks::kOnGpu;
  // The kind of device whose tensors they take: float32, float16, bfloat16; on the CPU also float64
  at::DeviceType device = at::kCUDA;
  bool operator==(const NormKernels&) const = default;
};

// For the whole process, in place of those before. Other kernels are compared before they compute.
// nullopt: LibTorch's operators compute. At the beginning they are NormKernels{}. To be called
// while no layer runs.
void use_norm_kernels(const std::optional<NormKernels>&);

// What computes batch norm of x and of what belongs to it, after the comparison; nullptr:
// LibTorch's operators on a GPU, the loops on the CPU. Stays the same for a tensor between forward
// and backward. Thread-safe.
const kernels::batch_norm::blocks::Runner* norm_runner(const at::Tensor& x);

}  // namespace dtrain::layers

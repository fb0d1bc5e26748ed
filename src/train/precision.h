#pragma once

// What the arithmetic of a run is: chosen once at start from `train.amp` and the device, then fixed.

#include <torch/torch.h>

#include <string>

#include "layers/autocast.h"

namespace dtrain::train {

enum class Precision { kFp16, kBf16, kTf32, kFp32, kFp64 };

std::string to_string(Precision);  // as in the configuration: "fp16", ...

// `train.amp` on a device of this capability (10 × major + minor, see DeviceInfo; 0 on the CPU). "auto": fp32 on the
// CPU, bf16 from capability 8.0 on, else fp16. ConfigError, with what to use instead, for a name that is none of these
// or that the device cannot do.
Precision parse_precision(const std::string& name, at::DeviceType device, int capability);

at::ScalarType parameter_dtype(Precision);  // float64 for fp64, else float32 (autocast makes what is lower)
bool needs_loss_scaling(Precision);         // fp16: its smallest number is 6e-8

// The autocast of a forward pass: on for fp16 and bf16, off for precisions that need no casts.
layers::AutocastGuard autocast_for(Precision, at::Device);

// TF32 in float32 products and convolutions: on for tf32, fp16 and bf16, off for fp32 and fp64. For the whole process.
void apply_precision(Precision);

}  // namespace dtrain::train

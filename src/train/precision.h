#pragma once

// The precision of a run's computations. It is chosen at start from `train.amp` and the device and
// does not change.

#include <torch/types.h>

#include <optional>
#include <string>

#include "config/choices.h"
#include "layers/autocast.h"
#include "text/named_enum.h"

namespace dtrain::train {

enum class Precision { kFp16, kBf16, kTf32, kFp32, kFp64 };
// The names in the configuration.
constexpr auto names_of(Precision) { return names("fp16", "bf16", "tf32", "fp32", "fp64"); }
inline std::string to_string(Precision precision) { return std::string(name_of(precision)); }

// The precision that `train.amp` means on a device of this capability (10 × major + minor, see
// device.h; 0 on the CPU). auto means fp32 on the CPU, bf16 on GPUs of capability 8.0 and newer,
// else fp16. ConfigError, which says what to use instead, if the device does not support it.
Precision choose_precision(config::AmpMode, at::DeviceType device, int capability);

bool has_bf16(at::DeviceType device, int capability);  // the CPU has it

// What helps against gradients that overflow, beside a smaller learning rate, as a flag: bfloat16,
// whose largest number is that of float32, in place of float16 where the device has it,
// else clipping.
std::string against_overflow(Precision, at::DeviceType device, int capability);

// float64 for fp64, else float32 (autocast computes in lower precision)
at::ScalarType parameter_dtype(Precision);
// Where something is fp16, whose smallest number is 6e-8: what operators compute, or gradients
// between ranks.
bool needs_loss_scaling(Precision, config::Wire = config::Wire::kFp32);

// What autocast computes in; none: it is off.
std::optional<at::ScalarType> autocast_dtype(Precision);
// The autocast of a forward pass: on for fp16 and bf16, off for precisions that need no casts.
layers::AutocastGuard autocast_for(Precision, at::Device);

// Turns TF32 in float32 products and convolutions on for tf32, fp16 and bf16, and off for fp32 and
// fp64. Affects the whole process.
void apply_precision(Precision);

}  // namespace dtrain::train

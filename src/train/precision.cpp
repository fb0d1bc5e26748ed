#include "train/precision.h"

#include "catalog/gpus.h"
#include "core/error.h"
#include "text/strings.h"

namespace dtrain::train {

Precision choose_precision(config::AmpMode amp, at::DeviceType device, int capability) {
  using config::AmpMode;
  const bool cuda = device == at::kCUDA, ampere = cuda && has_bf16(device, capability);
  const auto refuse = [&](const std::string& why) {
    return ConfigError(str("train.amp: ", amp, " ", why));
  };
  const std::string here = str("; this one has ", capability / 10, ".", capability % 10);
  switch (amp) {
    case AmpMode::kAuto:
      return !cuda ? Precision::kFp32 : ampere ? Precision::kBf16 : Precision::kFp16;
    case AmpMode::kFp16:
      if (!cuda) throw refuse("needs a GPU. On the CPU use bf16, fp32 or auto.");
      return Precision::kFp16;
    case AmpMode::kBf16:
      if (cuda && !ampere)
        throw refuse("needs a GPU of compute capability 8.0 or newer" + here +
                     ". Use fp16 or auto.");
      return Precision::kBf16;
    case AmpMode::kTf32:
      if (!cuda) throw refuse("needs a GPU. On the CPU use fp32 or auto.");
      if (!ampere)
        throw refuse("needs a GPU of compute capability 8.0 or newer" + here +
                     ". Use fp32, fp16 or auto.");
      return Precision::kTf32;
    case AmpMode::kFp32:
      return Precision::kFp32;
    case AmpMode::kFp64:
      return Precision::kFp64;
  }
  return Precision::kFp32;
}

bool has_bf16(at::DeviceType device, int capability) {
  return device == at::kCPU || catalog::has_bf16(capability);
}

std::string against_overflow(Precision precision, at::DeviceType device, int capability) {
  return precision == Precision::kFp16 && has_bf16(device, capability) ? "--amp bf16"
                                                                       : "--optimizer.clip_norm 1";
}

at::ScalarType parameter_dtype(Precision precision) {
  return precision == Precision::kFp64 ? at::kDouble : at::kFloat;
}

bool needs_loss_scaling(Precision precision, config::Wire wire) {
  return precision == Precision::kFp16 || wire == config::Wire::kFp16;
}

std::optional<at::ScalarType> autocast_dtype(Precision precision) {
  if (precision == Precision::kFp16) return at::kHalf;
  if (precision == Precision::kBf16) return at::kBFloat16;
  return std::nullopt;
}

layers::AutocastGuard autocast_for(Precision precision, at::Device device) {
  layers::AutocastState state = layers::current_autocast(device.type());
  const std::optional<at::ScalarType> dtype = autocast_dtype(precision);
  state.enabled = dtype.has_value();
  if (dtype) state.dtype = *dtype;
  return layers::AutocastGuard(state);
}

void apply_precision(Precision precision) {
  const bool tf32 = precision != Precision::kFp32 && precision != Precision::kFp64;
  at::globalContext().setAllowTF32CuBLAS(tf32);
  at::globalContext().setAllowTF32CuDNN(tf32);
}

}  // namespace dtrain::train

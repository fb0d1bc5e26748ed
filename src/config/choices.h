#pragma once

// The values that are one of a few names. A name is parsed once, when the configuration is loaded;
// the code compares values. The names are what people write in YAML and flags, and what is saved.

#include "text/named_enum.h"

namespace dtrain::config {

// For the task `module`
enum class LossName { kMse, kSmoothL1, kL1, kCrossEntropy, kBceWithLogits, kNll };
constexpr auto names_of(LossName) {
  return names("mse", "smooth_l1", "l1", "cross_entropy", "bce_with_logits", "nll");
}

// The arguments of the forward() of a `module`
enum class ModuleInputs { kImage, kRows, kRowsAndLengths };
constexpr auto names_of(ModuleInputs) { return names("image", "rows", "rows+lengths"); }

enum class ProgressMode { kAuto, kBar, kLines };
constexpr auto names_of(ProgressMode) { return names("auto", "bar", "lines"); }

// Which samples are compared with their checksums
enum class VerifyMode { kFirstEpoch, kTrue, kFalse };
constexpr auto names_of(VerifyMode) { return names("first_epoch", "true", "false"); }

enum class OnBadSample { kStop, kSkip };
constexpr auto names_of(OnBadSample) { return names("stop", "skip"); }

enum class AmpMode { kAuto, kFp16, kBf16, kTf32, kFp32, kFp64 };
constexpr auto names_of(AmpMode) { return names("auto", "fp16", "bf16", "tf32", "fp32", "fp64"); }

enum class OptimizerName { kAdamW, kAdam, kSgd };
constexpr auto names_of(OptimizerName) { return names("adamw", "adam", "sgd"); }

enum class ScheduleName { kConstant, kStep, kCosine, kOneCycle, kPlateau };
constexpr auto names_of(ScheduleName) {
  return names("constant", "step", "cosine", "one_cycle", "plateau");
}

enum class Backend { kAuto, kNccl, kStaged, kMpi, kSharedMemory, kHierarchical };
constexpr auto names_of(Backend) {
  return names("auto", "nccl", "staged", "mpi", "shared_memory", "hierarchical");
}

enum class Wire { kFp32, kBf16, kFp16 };
constexpr auto names_of(Wire) { return names("fp32", "bf16", "fp16"); }

enum class DeviceType { kAuto, kCuda, kCpu };
constexpr auto names_of(DeviceType) { return names("auto", "cuda", "cpu"); }

}  // namespace dtrain::config

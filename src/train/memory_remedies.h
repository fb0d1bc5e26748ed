#pragma once

// What to change when memory is full, and what each change saves: computed from what a step needs,
// by kind. Pure.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "train/batch_arithmetic.h"
#include "train/measured_steps.h"

namespace dtrain::train {

struct MemoryNeed {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  StepMemory step;          // needs of the micro-batch that did not fit in memory
  BatchArithmetic batches;  // batch sizes of the run that ran out of memory
  // Batches that wait in the same memory (data.prefetch, where it is the host's)
  int64_t read_ahead = 0;
  double missing = 0;  // bytes by which memory is short, as far as known
  // Activations of the same micro-batch with a change, in bytes; unknown: the change cannot be
  // made, or was made.
  double activations_checkpointed = kUnknown, activations_amp = kUnknown;
  std::string amp = {};        // the precision that activations_amp is of: "bf16", "fp16"
  bool keeps_moments = false;  // the optimizer is one with moments
  bool keeps_average = false;  // train.ema is on

  double total() const {
    return static_cast<double>(step.total()) +
           static_cast<double>(read_ahead) * static_cast<double>(step.batch);
  }
};

struct Remedy {
  std::string flags;  // "--batch-size 16 --accumulate 2"
  double saving = 0;  // bytes
  bool enough = false;
  std::string effect;  // on the training: "the same global batch of 64"
};
inline constexpr size_t kRemedies = 3;

// The best three: those that save enough first, of these those that change the training least; then
// those that save most. Fewer, where fewer save anything.
std::vector<Remedy> memory_remedies(const MemoryNeed&);

// Lines of text, without an end of line: what a step needs, and the remedies.
std::string describe(const MemoryNeed&);

}  // namespace dtrain::train

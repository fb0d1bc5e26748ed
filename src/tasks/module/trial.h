#pragma once

// The samples on which a TorchScript file is tried before training: those of the data file or,
// where there is none, made up.

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/sample_spec.h"
#include "data/store.h"

namespace dtrain::tasks {

// Unlike the batch sizes that are usual for tracing, so that a fixed batch size is noticed.
inline constexpr int64_t kTrialSamples = 3;

struct TrialBatch {
  // What forward() receives: [B, ...], and with lengths also int64 [B]
  std::vector<at::Tensor> inputs;
  at::Tensor targets;  // undefined: the trial has no loss
};

struct ContractTrial {
  TrialBatch several;  // kTrialSamples samples
  TrialBatch one;      // one sample; of another length than `several`, where lengths differ
  std::string origin;  // before "samples" in messages: "made-up "; "" for those of a data file
  at::Device device = at::kCPU;  // where it will be trained (the trial runs on the CPU)
};

// Three samples of typical size from the training split, or from the whole file if that has none,
// as the loader gives them. Samples that cannot be read are passed over. DataError if that is true
// of all that it tries.
ContractTrial trial_of(const data::Store&, const data::SampleSpec&, bool lengths, at::Device);

struct MadeUp {
  std::vector<int64_t> input;  // shape of one sample for forward(): {3, S, S}, {T, F} or {F}
  bool lengths = false;        // forward(inputs, lengths [B] int64)
  bool ones = false;           // instead of normally distributed values
  at::Device device = at::kCPU;
};
ContractTrial made_up(const MadeUp&);

// Trials for `inspect`, which has no data: images of `image_size` if the first weight is a
// two-dimensional convolution, else rows with and without a time axis. `inputs` and `features`
// override this guess where they are given. Code may take indices or the logarithm of its inputs,
// or need many rows, so the later trials have ones, and more rows.
std::vector<ContractTrial> likely_trials(const std::filesystem::path& file,
                                         const std::string& inputs, int64_t image_size,
                                         int64_t features);

}  // namespace dtrain::tasks

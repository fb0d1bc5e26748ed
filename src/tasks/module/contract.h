#pragma once

// Checks before training whether a TorchScript file can be trained: reads its code for fixed devices and constants, and
// runs one forward and backward pass on made-up samples. It loads the file again, so that neither a network in use nor
// the random number generators change.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/store.h"
#include "tasks/module/module_loss.h"
#include "tasks/module/script_network.h"

namespace dtrain::tasks {

// The samples for a trial of forward().
struct Trial {
  std::vector<int64_t> input = {};  // of one sample, as forward() receives it: {3, S, S}, {T, F} or {F}
  bool lengths = false;             // forward(inputs, lengths [B] int64)
  std::optional<data::Field> target = std::nullopt;  // if given, the trial uses the loss of the training
  at::Device device = at::kCPU;                      // where it will be trained (the trial runs on the CPU)
};

struct Contract {
  std::vector<std::string> facts;     // "parameters  7 402 in 6 tensors"
  std::vector<std::string> warnings;  // training can start
  std::vector<std::string> defects;   // any of them prevents the training
  int64_t classes = 0;                // of the output, if the loss is one of classes
};

// DataError if it is not a TorchScript file.
Contract examine(const std::filesystem::path& file, const std::vector<Trial>&, const ModuleLoss&);

// Trials for `inspect`, which has no data: images of `image_size` if the first weight is a two-dimensional convolution,
// else rows with and without a time axis. `inputs` and `features` override this guess where they are given.
std::vector<Trial> likely_trials(const std::filesystem::path& file, const std::string& inputs, int64_t image_size,
                                 int64_t features);

std::string to_text(const Contract&);

// The operations of the code that draw random numbers ("aten::dropout"). If there are none, training is as reproducible
// as with a built-in network.
std::vector<std::string> random_operations(const ScriptNetwork&);

}  // namespace dtrain::tasks

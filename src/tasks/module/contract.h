#pragma once

// What a TorchScript file must keep to be trained here, found out before training: by reading its code for what is
// baked in, and by one forward and backward pass on made-up samples. The file is loaded anew for it: nothing of a
// network in use changes, nor do the generators.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/store.h"
#include "tasks/module/module_loss.h"
#include "tasks/module/script_network.h"

namespace dtrain::tasks {

// The samples that forward() is tried on.
struct Trial {
  std::vector<int64_t> input = {};                   // of one sample, as the network gets it: {3, S, S}, {T, F} or {F}
  bool lengths = false;                              // forward(inputs, lengths [B] int64)
  std::optional<data::Field> target = std::nullopt;  // with it, the loss is that of training
  at::Device device = at::kCPU;                      // where it is to be trained (it is tried on the CPU)
};

struct Contract {
  std::vector<std::string> facts;     // "parameters  7 402 in 6 tensors"
  std::vector<std::string> warnings;  // one each: training goes on
  std::vector<std::string> defects;   // one each: any of them stops it
  int64_t classes = 0;                // of the output, where the loss is one of classes
};

// DataError: no TorchScript file at all.
Contract examine(const std::filesystem::path& file, const std::vector<Trial>&, const ModuleLoss&);

// The trials that a file's first weight suggests, for `inspect`, which knows no data: images of `image_size` for a
// convolution over three channels, rows for anything else, with and without a time axis. What is given counts.
std::vector<Trial> likely_trials(const std::filesystem::path& file, const std::string& inputs, int64_t image_size,
                                 int64_t features);

std::string to_text(const Contract&);

// The operations of the code that draw random numbers ("aten::dropout"); none: as reproducible as a built-in network.
std::vector<std::string> random_operations(const ScriptNetwork&);

}  // namespace dtrain::tasks

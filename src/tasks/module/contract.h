#pragma once

// Checks before training whether a TorchScript file can be trained: reads its code for fixed
// devices and constants, and tries it on a few samples (trial.h). It loads the file again, so that
// neither a network in use nor the random number generators change.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tasks/module/module_loss.h"
#include "tasks/module/script_network.h"
#include "tasks/module/trial.h"

namespace dtrain::tasks {

struct Contract {
  std::vector<std::string> facts;     // "parameters  7 402 in 6 tensors"
  std::vector<std::string> warnings;  // training can start
  std::vector<std::string> defects;   // any of them prevents the training
  // Numbers of samples on which a training step fails although it does not on others, and why: one
  // sample is too few for batch norm over one value of each channel.
  std::map<int64_t, std::string> untrainable;
  int64_t classes = 0;  // number in the output, if the loss classifies
};

// The first of the trials that works decides, and where none does, the first one. DataError: it is
// no TorchScript file.
Contract examine(const std::filesystem::path& file, const std::vector<ContractTrial>&,
                 const ModuleLoss&);

std::string to_text(const Contract&);

// The operations of the code that draw random numbers ("aten::dropout"). If there are none,
// training is as reproducible as with a built-in network.
std::vector<std::string> random_operations(const ScriptNetwork&);

}  // namespace dtrain::tasks

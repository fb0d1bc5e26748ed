#pragma once

// What a resumed run keeps of the run that saved its checkpoint. Pure but for the log.

#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/store.h"
#include "config/load.h"
#include "data/order/splits.h"
#include "data/store.h"

namespace dtrain::job {

// The configuration of the run that saved the checkpoint.
config::SavedConfig saved_config(const checkpoint::Snapshot&);

struct Resolved {
  config::Config config;
  std::string batch_decided_by;  // for the banner
};

// The resolved configuration: on a resume, the saved one with the values that were given now in
// place of its own. ConfigError that names the keys that a resumed run keeps and that were given
// another value, and, where load() left them to the caller, the rules that are broken.
Resolved resolve(const config::Loaded&, const std::optional<checkpoint::Snapshot>&, int64_t ranks);

// ConfigError unless these are the data of the checkpoint, divided in the same way: otherwise
// samples that were trained on could be tested on.
void check_same_data(const checkpoint::Snapshot&, const data::Store&, const data::Splits&);

// Whether the file was written after the checkpoint was saved, or is a copy. False for older
// checkpoints, which do not say when it was written.
bool is_other_file(const checkpoint::Snapshot&, const data::Store&);

// CheckpointError that names the first tensor that is not finite of the weights, the optimizer or
// the state of a rank. `module`: the network before the weights are loaded (models::check_finite()
// says why). Reads all of it once.
void check_finite(const checkpoint::Snapshot&, const std::filesystem::path& checkpoint,
                  const torch::nn::Module& module);

}  // namespace dtrain::job

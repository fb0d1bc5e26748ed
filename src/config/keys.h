#pragma once

// The one table of all configuration keys. The loader, the flags, --help, --print-config and
// docs/configuration.md all read it, so that they always know the same keys. A new key is one field
// in config.h and one entry in the file of its section: task_keys.cpp, data_keys.cpp,
// train_keys.cpp, run_keys.cpp. The targets point into the argument, which must outlive the result.

#include <string>
#include <vector>

#include "config/table.h"

namespace dtrain::config {

// All keys, section by section.
std::vector<Option> describe(Config&);

struct Section {
  std::string name, text;
  std::vector<Option> (*keys)(Config&);  // its entries
};
const std::vector<Section>& sections();  // same order as the table

// The entries of each section.
std::vector<Option> task_keys(Config&);  // the name of the task, and the keys of the task `module`
std::vector<Option> model_keys(Model&);
std::vector<Option> pointer_keys(Pointer&);
std::vector<Option> sequence_keys(Sequence&);

std::vector<Option> data_keys(Data&);
std::vector<Option> augment_keys(Augment&);

std::vector<Option> train_keys(Train&);
std::vector<Option> optimizer_keys(OptimizerConfig&);
std::vector<Option> schedule_keys(Schedule&);
std::vector<Option> amp_keys(Amp&);

std::vector<Option> run_keys(Run&);
std::vector<Option> checkpoint_keys(Checkpoint&);
std::vector<Option> dist_keys(Dist&);
std::vector<Option> device_keys(Device&);
std::vector<Option> metrics_keys(Metrics&);

}  // namespace dtrain::config

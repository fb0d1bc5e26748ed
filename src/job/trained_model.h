#pragma once

// A checkpoint made ready for inference: what eval, predict and export start from. The checkpoint
// holds the task, the network and the input size; no configuration is needed.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/safetensors.h"
#include "config/config.h"
#include "dist/communicator.h"
#include "job/data_set.h"
#include "job/find_checkpoint.h"
#include "job/run_paths.h"
#include "tasks/task.h"

namespace dtrain::job {

struct TrainedModel {
  std::string checkpoint;  // rank 0: its folder
  // Rank 0: how it was chosen among those of the run, as FoundCheckpoint says it
  std::string chosen;
  checkpoint::Metadata metadata;
  // Configuration of the run that saved it, with the task and network that the metadata name
  config::Config config;
  std::unique_ptr<tasks::Task> task;  // with the checkpoint's weights, on the CPU, in eval mode
  RunPaths paths;                     // from the run that saved it
  uint64_t data_checksum = 0;         // identifies the data that it was trained on
};

// What differs from the training run; "" or none: the same.
struct Changes {
  std::string module_file;  // where the TorchScript file of a task `module` is now; "": look for it
  std::optional<config::OnBadSample> on_bad_sample = std::nullopt;
  // Where it will run; a TorchScript file may not fit every kind of device
  at::Device device = at::kCPU;
  // false: CheckpointError for a TorchScript network unless module_file names its file
  bool looks_for_code = true;
};

// UsageError where --module is given for one of dtrain's own networks, by the metadata of
// its checkpoint.
void check_module_option(const std::string& module_file, const checkpoint::Metadata&);

// Collective: rank 0 alone reads the folder, and an error of any rank is agreed on. Errors: those
// of find_checkpoint(); CheckpointError for one of another network, and where the TorchScript file
// is not found.
TrainedModel load_model(dist::Communicator& host, const CheckpointName&, const Changes& = {});

// The same for a process without other ranks, which prints nothing.
TrainedModel load_model_alone(const CheckpointName&, const Changes& = {});

// The data set `file` or, if that is "", the one that the model was trained on, wherever it is now.
// An explicit file is never replaced. Not collective. DataError.
DataSet open_data(data::ProbeProcess&, const TrainedModel&, const std::string& file);

}  // namespace dtrain::job

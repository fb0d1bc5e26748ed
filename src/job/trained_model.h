#pragma once

// A checkpoint made ready for inference: what eval, predict and export start from. The checkpoint holds the task, the
// network and the input size; no configuration is needed.

#include <torch/types.h>

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/safetensors.h"
#include "config/config.h"
#include "dist/communicator.h"
#include "tasks/task.h"

namespace dtrain::job {

struct TrainedModel {
  std::string checkpoint;  // its folder, as rank 0 found it
  checkpoint::Metadata metadata;
  config::Config config;              // of the run that saved it, with the task and network that the metadata name
  std::unique_ptr<tasks::Task> task;  // with the checkpoint's weights, on the CPU, in eval mode
};

// What differs from the training run; "" or none: the same.
struct Changes {
  std::string module_file;  // where the TorchScript file of a task `module` is now
  std::optional<config::OnBadSample> on_bad_sample = std::nullopt;
  at::Device device = at::kCPU;  // where it will run; a TorchScript file may not fit every kind of device
};

// UsageError where --module is given for one of dtrain's own networks, by the metadata of its checkpoint.
void check_module_option(const std::string& module_file, const checkpoint::Metadata&);

// `path`: a checkpoint folder, or a run folder (its newest checkpoint that verifies). Collective: rank 0 alone reads
// the folder, and an error of any rank is agreed on. CheckpointError: none that verifies, or one of another network.
TrainedModel load_model(dist::Communicator& host, const std::string& path, const Changes& = {});

}  // namespace dtrain::job

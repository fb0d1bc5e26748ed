#pragma once

// Running statistics of batch norm stay local to a rank during training. An evaluation or a
// checkpoint uses their mean over ranks, weighted by the number of samples that each rank has seen.
// The mean is a copy, so that evaluating or saving never changes the run. For buffers of integers
// and flags (counters, or masks in a user's module), the maximum over ranks is used instead.

#include <torch/nn/module.h>

#include "checkpoint/safetensors.h"
#include "dist/communicator.h"

namespace dtrain::train {

// During its lifetime the module's buffers are the mean over ranks; the destructor restores the
// local ones. The constructor is collective.
class AveragedBuffers {
 public:
  AveragedBuffers(torch::nn::Module&, dist::Communicator& host, int64_t samples_seen);
  ~AveragedBuffers();
  AveragedBuffers(const AveragedBuffers&) = delete;
  AveragedBuffers& operator=(const AveragedBuffers&) = delete;

 private:
  torch::nn::Module& module_;
  checkpoint::NamedTensors local_;
};

// Copies on the CPU, with the prefix added to their names.
checkpoint::NamedTensors copy_buffers(const torch::nn::Module&, const std::string& prefix = "");

}  // namespace dtrain::train

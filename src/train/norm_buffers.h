#pragma once

// Running statistics of batch norm stay local to a rank while training. What is evaluated and saved is their mean over
// ranks, weighted by the samples each rank has seen; it is a copy, so that evaluating or saving never changes the run.
// Buffers of integers and flags (counters, masks of a network of one's own) are the largest over ranks.

#include <torch/torch.h>

#include "checkpoint/safetensors.h"
#include "dist/communicator.h"

namespace dtrain::train {

// For its lifetime the module's buffers are the mean over ranks. Collective at construction; the destructor puts the
// local ones back.
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

checkpoint::NamedTensors copy_buffers(const torch::nn::Module&, const std::string& prefix = "");  // on the CPU

}  // namespace dtrain::train

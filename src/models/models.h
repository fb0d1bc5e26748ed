#pragma once

// The networks that more than one task may use. Parameters and buffers have the names, shapes and order of their
// PyTorch counterparts, so that torchvision's weights load as they are and give the same outputs:
//   resnet18, resnet50   torchvision's, `fc` with `outputs` rows
//   mobilenet_v2         torchvision's of width 1, `classifier.1` with `outputs` rows
//   headpose_cnn         Sequential names: features.I.0.weight (conv 3×3 without bias), features.I.1.* (batch norm)
//                        for the five blocks I = 0..4 of 32, 64, 128, 256, 512 channels; fc.0.* (512 -> 256),
//                        fc.2.* (256 -> outputs)
//   simple_cnn           features.I.0.* (conv 3×3) for the three blocks I = 0..2 of 32, 64, 128 channels;
//                        fc.0.* (128 · (size / 8)² -> 256), fc.3.* (256 -> outputs)
// Images of 32 pixels and more; any size fits any network but simple_cnn, which is made for one.

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"

namespace dtrain::models {

// input [B, 3, H, W] -> output [B, outputs].
class Network : public torch::nn::Module {
 public:
  virtual at::Tensor forward(at::Tensor input) = 0;
  virtual std::string head_prefix() const = 0;  // names of the last layer begin with it ("fc.")
};

struct NetworkOptions {
  int64_t outputs = 3;
  double dropout = 0.3;        // not resnet; while training, forward needs a RandomScope if it is above 0
  uint64_t seed = 1;           // initial weights are keyed by (seed, parameter name): equal on all ranks
  int64_t image_size = 224;    // simple_cnn: side of its images in pixels
  bool checkpointing = false;  // less memory: each block keeps its input alone and is computed again in backward
};

std::shared_ptr<Network> make_network(const std::string& name, const NetworkOptions&);  // ConfigError: unknown
std::vector<std::string> network_names();

void set_channels_last(torch::nn::Module&);  // 4-D parameters, in place (before a reducer takes them)
void freeze_batch_norm(torch::nn::Module&);  // the running statistics of every batch norm layer, for good

// Whether the pattern ('*': any characters, '?': one) fits the parameter's name or that of a layer it is part of:
// "conv1", "features.*" and "*.bias" do.
bool matches_name(const std::string& pattern, const std::string& parameter);

// Parameters of these names learn no more, and batch norm layers of which both parameters are named keep their
// statistics, for good. Returns the names of the parameters. ConfigError, before anything is frozen, for a pattern
// that fits none.
std::vector<std::string> freeze(torch::nn::Module&, const std::vector<std::string>& patterns);

// Copies tensors by name, converted to the network's precision and device. Strict; when only the last layer differs it
// keeps its fresh values. Returns lines that say what was loaded and what was not; CheckpointError with the list when
// anything else is missing, unexpected or misshapen, and nothing is copied then.
std::vector<std::string> load_initial_weights(Network&, const checkpoint::TensorFile&);

}  // namespace dtrain::models

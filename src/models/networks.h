#pragma once

// The constructors behind make_network(): layers in torch's order, weights not yet keyed.

#include "models/models.h"

namespace dtrain::models {

std::shared_ptr<Network> make_headpose_cnn(const NetworkOptions&);
std::shared_ptr<Network> make_resnet18(const NetworkOptions&);
std::shared_ptr<Network> make_resnet50(const NetworkOptions&);

// Fresh weights with torchvision's distributions: convolutions He-normal by fan-out, linear layers uniform within
// 1/sqrt(fan-in), batch norm 1 and 0. Each tensor has a generator of its own, keyed by (seed, name).
void initialise(torch::nn::Module&, uint64_t seed);

// The generator of one tensor's fresh values.
at::Generator keyed_generator(uint64_t seed, const std::string& parameter);

}  // namespace dtrain::models

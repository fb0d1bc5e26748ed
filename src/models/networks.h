#pragma once

// The constructors behind make_network(): layers in torch's order, weights not yet keyed.

#include "models/models.h"

namespace dtrain::models {

std::shared_ptr<Network> make_headpose_cnn(const NetworkOptions&);
std::shared_ptr<Network> make_simple_cnn(const NetworkOptions&);
std::shared_ptr<Network> make_mobilenet_v2(const NetworkOptions&);
std::shared_ptr<Network> make_resnet18(const NetworkOptions&);
std::shared_ptr<Network> make_resnet50(const NetworkOptions&);

// Fresh weights: convolutions He-normal by fan-out with bias 0, batch norm 1 and 0, as torchvision's networks begin.
// Linear layers: uniform within 1/sqrt(fan-in) (resnet and torch's default), or normal and bias 0 (mobilenet_v2). Each
// tensor has a generator of its own, keyed by (seed, name).
enum class LinearValues { kUniform, kNormal };
void initialise(torch::nn::Module&, uint64_t seed, LinearValues = LinearValues::kUniform);

// The generator of one tensor's fresh values.
at::Generator keyed_generator(uint64_t seed, const std::string& parameter);

}  // namespace dtrain::models

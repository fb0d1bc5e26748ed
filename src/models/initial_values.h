#pragma once

// Initial weights that are a function of the seed and the parameter's name, so that they do not
// depend on the order in which a network is built.

#include <torch/nn/module.h>

#include <cstdint>
#include <string>

namespace dtrain::models {

// Linear layers: uniform within 1 / sqrt(fan-in), as in resnet and by torch's default, or normal
// with bias 0, as in mobilenet_v2.
enum class LinearValues { kUniform, kNormal };

// Sets all parameters and buffers to initial values like those of torchvision: convolutions
// He-normal by fan-out with bias 0, batch norm 1 and 0, linear layers as above.
void initialize(torch::nn::Module&, uint64_t seed, LinearValues = LinearValues::kUniform);

// The generator of the initial values of one parameter.
at::Generator keyed_generator(uint64_t seed, const std::string& parameter);

}  // namespace dtrain::models

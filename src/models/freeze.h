#pragma once

// Excludes parts of a network from training.

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace dtrain::models {

// Whether the pattern ('*' matches any characters, '?' matches one) matches the parameter's name or
// the name of a layer that contains it: "conv1", "features.*" and "*.bias" are patterns.
bool matches_name(const std::string& pattern, const std::string& parameter);

// Permanently stops the training of matching parameters. Batch norm layers whose two parameters
// both match also keep their statistics. Returns the names of the parameters. ConfigError, before
// anything is frozen, if a pattern matches nothing.
std::vector<std::string> freeze(torch::nn::Module&, const std::vector<std::string>& patterns);

// Permanently, the running statistics of all batch norm layers
void freeze_batch_norm(torch::nn::Module&);

}  // namespace dtrain::models

#include "models/initial_values.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

#include "core/hash.h"
#include "core/random.h"
#include "layers/batch_norm.h"

namespace dtrain::models {

at::Generator keyed_generator(uint64_t seed, const std::string& parameter) {
  return at::make_generator<at::CPUGeneratorImpl>(
      keyed(static_cast<uint64_t>(Purpose::kInit), seed, xxh64(parameter)));
}

void initialize(torch::nn::Module& network, uint64_t seed, LinearValues linear_values) {
  constexpr double kNormalDeviation = 0.01;
  const at::NoGradGuard no_grad;
  for (const auto& item : network.named_modules("", /*include_self=*/false)) {
    const auto generator = [&](const char* tensor) {
      return keyed_generator(seed, item.key() + "." + tensor);
    };
    if (auto* conv = item.value()->as<torch::nn::Conv2d>()) {
      const double fan_out =
          static_cast<double>(conv->weight.size(0) * conv->weight.size(2) * conv->weight.size(3));
      conv->weight.normal_(0, std::sqrt(2 / fan_out), generator("weight"));
      if (conv->bias.defined()) conv->bias.zero_();
    } else if (auto* linear = item.value()->as<torch::nn::Linear>()) {
      if (linear_values == LinearValues::kNormal) {
        linear->weight.normal_(0, kNormalDeviation, generator("weight"));
        linear->bias.zero_();
        continue;
      }
      const double bound = 1 / std::sqrt(static_cast<double>(linear->weight.size(1)));
      linear->weight.uniform_(-bound, bound, generator("weight"));
      linear->bias.uniform_(-bound, bound, generator("bias"));
    } else if (auto* norm = item.value()->as<layers::BatchNorm>()) {
      norm->reset_parameters();
    }
  }
}

}  // namespace dtrain::models

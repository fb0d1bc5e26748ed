#include "models/models.h"

#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <cmath>

#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"
#include "core/strings.h"
#include "layers/batch_norm.h"
#include "models/networks.h"

namespace dtrain::models {
namespace {

struct Entry {
  const char* name;
  std::shared_ptr<Network> (*make)(const NetworkOptions&);
  LinearValues linear = LinearValues::kUniform;
};

constexpr std::array<Entry, 5> kNetworks = {{{"headpose_cnn", make_headpose_cnn},
                                             {"simple_cnn", make_simple_cnn},
                                             {"mobilenet_v2", make_mobilenet_v2, LinearValues::kNormal},
                                             {"resnet18", make_resnet18},
                                             {"resnet50", make_resnet50}}};

}  // namespace

at::Generator keyed_generator(uint64_t seed, const std::string& parameter) {
  const uint64_t name = xxh64(std::as_bytes(std::span(parameter)));
  return at::make_generator<at::CPUGeneratorImpl>(keyed(static_cast<uint64_t>(Purpose::kInit), seed, name));
}

void initialise(torch::nn::Module& network, uint64_t seed, LinearValues linear_values) {
  constexpr double kNormalDeviation = 0.01;
  const torch::NoGradGuard no_grad;
  for (const auto& item : network.named_modules("", /*include_self=*/false)) {
    const auto generator = [&](const char* tensor) { return keyed_generator(seed, item.key() + "." + tensor); };
    if (auto* conv = item.value()->as<torch::nn::Conv2d>()) {
      const double fan_out = static_cast<double>(conv->weight.size(0) * conv->weight.size(2) * conv->weight.size(3));
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

std::shared_ptr<Network> make_network(const std::string& name, const NetworkOptions& options) {
  for (const Entry& entry : kNetworks) {
    if (name != entry.name) continue;
    std::shared_ptr<Network> network = entry.make(options);
    initialise(*network, options.seed, entry.linear);
    return network;
  }
  const std::vector<std::string> names = network_names();
  const std::string near = nearest(name, names);
  throw ConfigError(str("model.name: '", name, "' is not one of ", join(names, ", "),
                        near.empty() ? "" : "; did you mean '" + near + "'?"));
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kNetworks) names.emplace_back(entry.name);
  return names;
}

void set_channels_last(torch::nn::Module& network) {
  for (at::Tensor& parameter : network.parameters()) {
    if (parameter.dim() == 4) parameter.set_data(parameter.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
}

void freeze_batch_norm(torch::nn::Module& network) {
  for (const auto& module : network.modules()) {
    if (auto* norm = module->as<layers::BatchNorm>()) norm->freeze();
  }
}

}  // namespace dtrain::models

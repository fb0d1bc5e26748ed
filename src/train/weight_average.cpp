#include "train/weight_average.h"

#include <map>

#include "core/error.h"
#include "device/tensor_memory.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

constexpr const char* kUpdates = "ema_updates";
constexpr const char* kPrefix = "param.";

at::Tensor on_cpu(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU).clone(at::MemoryFormat::Contiguous);
}

}  // namespace

WeightAverage::WeightAverage(const torch::nn::Module& module, double decay) : decay_(decay) {
  for (const auto& item : module.named_parameters()) {
    names_.push_back(item.key());
    weights_.push_back(item.value().detach());  // shares the memory
    if (enabled()) average_.push_back(weights_.back().clone());
  }
  if (!weights_.empty())
    updates_ = at::zeros({}, at::TensorOptions(weights_[0].device()).dtype(at::kFloat));
}

int64_t WeightAverage::bytes() const { return device::bytes_of(average_); }

std::vector<at::Tensor> WeightAverage::tensors() const {
  std::vector<at::Tensor> all = average_;
  if (enabled() && updates_.defined()) all.push_back(updates_);
  return all;
}

void WeightAverage::update(const at::Tensor& taken) {
  if (!enabled() || weights_.empty()) return;
  const at::NoGradGuard no_grad;
  const at::Tensor share =
      (updates_ == 0).to(at::kDouble).mul_(decay_).add_(1 - decay_).mul_(taken);  // first: 1
  std::map<at::ScalarType, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>>
      groups;  // average, weights
  for (size_t i = 0; i < weights_.size(); ++i) {
    auto& [averages, weights] = groups[weights_[i].scalar_type()];
    averages.push_back(average_[i]);
    weights.push_back(weights_[i]);
  }
  for (auto& [dtype, group] : groups) {
    auto& [averages, weights] = group;
    std::vector<at::Tensor> difference = at::_foreach_sub(weights, averages);
    at::_foreach_mul_(difference, share.to(dtype));
    at::_foreach_add_(averages, difference);
  }
  updates_.add_(taken);
}

WeightAverage::Scope::Scope(const WeightAverage& average) : average_(average) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; average.enabled() && i < average.weights_.size(); ++i) {
    raw_.push_back(average.weights_[i].clone());
    average.weights_[i].copy_(average.average_[i]);
  }
}

WeightAverage::Scope::~Scope() {
  try {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < raw_.size(); ++i) average_.weights_[i].copy_(raw_[i]);
  } catch (const c10::Error&) {
    // The device has failed, and the next operation on it says so: a destructor cannot.
  }
}

checkpoint::NamedTensors WeightAverage::state() const {
  checkpoint::NamedTensors state;
  if (!enabled()) return state;
  state.emplace_back(kUpdates, on_cpu(updates_));
  for (size_t i = 0; i < weights_.size(); ++i)
    state.emplace_back(kPrefix + names_[i], on_cpu(weights_[i]));
  return state;
}

void WeightAverage::load(checkpoint::NamedTensors& saved) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < average_.size(); ++i) average_[i].copy_(weights_[i]);
  checkpoint::NamedTensors rest;
  std::map<std::string, at::Tensor> raw;
  for (auto& [name, tensor] : saved) {
    if (name == kUpdates) {
      updates_.copy_(tensor);
    } else if (name.starts_with(kPrefix)) {
      raw.emplace(name.substr(std::char_traits<char>::length(kPrefix)), tensor);
    } else {
      rest.emplace_back(name, tensor);
    }
  }
  saved = std::move(rest);
  if (raw.empty()) return;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const auto found = raw.find(names_[i]);
    if (found == raw.end() || found->second.sizes() != weights_[i].sizes()) {
      throw CheckpointError(str("optimizer.safetensors has no weight '", kPrefix, names_[i],
                                "' of the network's shape"));
    }
    weights_[i].copy_(found->second);
  }
}

}  // namespace dtrain::train

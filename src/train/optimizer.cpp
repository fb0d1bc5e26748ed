#include "train/optimizer.h"

#include "core/check.h"
#include "device/tensor_memory.h"

namespace dtrain::train {
namespace {

std::vector<at::Tensor> zeros_like(const std::vector<dist::NamedParameter>& parameters) {
  std::vector<at::Tensor> made;
  for (const auto& parameter : parameters) {
    const at::Tensor& p = parameter.tensor;
    made.push_back(
        at::empty_strided(p.sizes(), p.strides(), p.options().requires_grad(false)).zero_());
  }
  return made;
}

}  // namespace

bool decays(const config::OptimizerConfig& options, const at::Tensor& parameter) {
  return options.decay_norms_and_biases || parameter.dim() > 1;
}

Optimizer::Optimizer(const config::OptimizerConfig& options,
                     std::vector<dist::NamedParameter> parameters,
                     const std::function<double(const std::string&)>& lr_ratio)
    : options_(options), parameters_(std::move(parameters)), grouped_(parameters_.size()) {
  for (const auto& parameter : parameters_)
    lr_ratios_.push_back(lr_ratio ? lr_ratio(parameter.name) : 1.0);
  DTRAIN_CHECK(!parameters_.empty(), "there is nothing to optimize");
  const bool adam = options_.name != config::OptimizerName::kSgd;
  if (adam || options_.momentum != 0) first_ = zeros_like(parameters_);
  if (adam) {
    second_ = zeros_like(parameters_);
    step_ = at::zeros({}, at::TensorOptions(parameters_[0].tensor.device()).dtype(at::kFloat));
  }
}

int64_t Optimizer::bytes() const { return device::bytes_of(first_) + device::bytes_of(second_); }

bool Optimizer::is_grouped() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].tensor.grad().is_same(grouped_[i])) return false;
  }
  return true;
}

void Optimizer::group() {
  groups_.clear();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, parameter] = parameters_[i];
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined()) {
      grouped_[i] = at::Tensor();
      continue;
    }
    DTRAIN_CHECK(gradient.strides() == parameter.strides(), "the gradient of ", name,
                 " has strides ", gradient.strides(), ", the parameter ", parameter.strides());
    Group& group = groups_[{parameter.scalar_type(), decays(options_, parameter), lr_ratios_[i]}];
    group.parameters.push_back(parameter);
    group.gradients.push_back(gradient);
    if (!first_.empty()) group.first.push_back(first_[i]);
    if (!second_.empty()) group.second.push_back(second_[i]);
    if (step_.defined()) group.steps.push_back(step_);
    grouped_[i] = gradient;
  }
}

void Optimizer::step(const at::Tensor& lr, const at::Tensor& clip, const at::Tensor& found_inf,
                     const at::Tensor& taken) {
  const at::NoGradGuard no_grad;
  if (!is_grouped()) group();
  const std::optional<at::Tensor> skip =
      found_inf.defined() ? std::optional(found_inf) : std::nullopt;
  const config::OptimizerConfig& o = options_;
  if (step_.defined()) skip ? step_.add_(taken) : step_.add_(1);
  for (auto& [key, g] : groups_) {
    const auto& [dtype, decayed, ratio] = key;
    const double decay = decayed ? o.weight_decay : 0;
    const at::Tensor rate = ratio == 1 ? lr : lr * ratio;
    // The operators divide by a float32; a wider gradient is clipped in its own dtype.
    std::optional<at::Tensor> divisor;
    if (clip.defined() && dtype == at::kFloat) divisor = clip.to(at::kFloat).reciprocal();
    if (clip.defined() && dtype != at::kFloat) at::_foreach_mul_(g.gradients, clip.to(dtype));
    if (o.name == config::OptimizerName::kSgd) {
      // A momentum of zeros makes the first step that of torch: 0 × momentum + gradient.
      at::_fused_sgd_(g.parameters, g.gradients, g.first, decay, o.momentum, rate, /*dampening=*/0,
                      o.nesterov,
                      /*maximize=*/false, /*is_first_step=*/false, divisor, skip);
      continue;
    }
    const auto fused = [&](auto op) {
      op(g.parameters, g.gradients, g.first, g.second, {}, g.steps, rate, o.beta1, o.beta2, decay,
         o.eps,
         /*amsgrad=*/false, /*maximize=*/false, divisor, skip);
    };
    if (o.name == config::OptimizerName::kAdamW) {
      fused(at::_ops::_fused_adamw__tensor_lr::call);
    } else {
      fused(at::_ops::_fused_adam__tensor_lr::call);
    }
  }
}

checkpoint::NamedTensors Optimizer::named_state() const {
  checkpoint::NamedTensors named;
  if (step_.defined()) named.emplace_back("step", step_);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    if (second_.empty() && !first_.empty())
      named.emplace_back("momentum_buffer." + name, first_[i]);
    if (second_.empty()) continue;
    named.emplace_back("exp_avg." + name, first_[i]);
    named.emplace_back("exp_avg_sq." + name, second_[i]);
  }
  return named;
}

checkpoint::NamedTensors Optimizer::state() const {
  checkpoint::NamedTensors copies = named_state();
  for (auto& [name, tensor] : copies)
    tensor = tensor.to(at::kCPU).clone(at::MemoryFormat::Contiguous);
  return copies;
}

void Optimizer::load(const checkpoint::NamedTensors& saved) {
  const auto refuse = [&](const auto&... why) {
    return CheckpointError(dtrain::str("the optimizer state does not fit ", options_.name,
                                       " on this network: ", why...,
                                       ". Resume with the optimizer and network that were saved."));
  };
  std::map<std::string, at::Tensor> found(saved.begin(), saved.end());
  const checkpoint::NamedTensors mine = named_state();
  for (const auto& [name, tensor] : mine) {  // all checks before the first change
    const auto entry = found.find(name);
    if (entry == found.end()) throw refuse(name, " is missing");
    const at::Tensor& other = entry->second;
    if (other.sizes() != tensor.sizes() || other.scalar_type() != tensor.scalar_type()) {
      throw refuse(name, " is ", c10::toString(other.scalar_type()), " ", other.sizes(),
                   " instead of ", c10::toString(tensor.scalar_type()), " ", tensor.sizes());
    }
  }
  if (found.size() > mine.size()) {
    for (const auto& entry : mine) found.erase(entry.first);
    throw refuse("it has ", found.begin()->first, ", which is unknown here");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : mine) tensor.copy_(found.at(name));
}

}  // namespace dtrain::train

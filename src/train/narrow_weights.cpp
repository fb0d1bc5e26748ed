#include "train/narrow_weights.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <map>

#include "device/tensor_memory.h"

namespace dtrain::train {
namespace {

using torch::autograd::variable_list;

// Runs as soon as the gradients of its copies are there, as the node of a leaf does: by default a
// node that was made before others runs after them.
constexpr auto kAtOnce = std::numeric_limits<uint64_t>::max();

// The backward pass of copies: their gradients in float32, as the weights are.
class WidenGradients : public torch::autograd::Node {
 public:
  explicit WidenGradients(torch::autograd::edge_list&& weights)
      : Node(kAtOnce, std::move(weights)) {}

  variable_list apply(variable_list&& gradients) override {
    const at::NoGradGuard no_grad;
    variable_list wide;
    std::vector<at::Tensor> to, from;
    for (const at::Tensor& gradient : gradients) {
      wide.push_back(gradient.defined()
                         ? at::empty_like(gradient, gradient.options().dtype(at::kFloat))
                         : at::Tensor());
      if (!gradient.defined()) continue;
      to.push_back(wide.back());
      from.push_back(gradient);
    }
    if (!to.empty()) at::_foreach_copy_(to, from);
    return wide;
  }
};

}  // namespace

NarrowWeights::NarrowWeights(torch::nn::Module& module, at::ScalarType type) {
  if (type == at::kFloat) return;
  const auto add = [&](at::Tensor& weight) {
    if (!weight.defined() || weight.scalar_type() != at::kFloat) return;
    places_.push_back(&weight);
    wide_.push_back(weight);
    narrow_.push_back(at::empty_like(weight.detach(), weight.options().dtype(type)));
  };
  for (const auto& one : module.modules()) {
    const auto add_those_of = [&](auto* layer) {
      if (layer == nullptr) return;
      add(layer->weight);
      add(layer->bias);
    };
    add_those_of(one->as<torch::nn::Conv2d>());
    add_those_of(one->as<torch::nn::Conv1d>());
    add_those_of(one->as<torch::nn::ConvTranspose1d>());
    add_those_of(one->as<torch::nn::Linear>());
  }
}

void NarrowWeights::refresh() {
  if (wide_.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(narrow_, wide_);
}

int64_t NarrowWeights::bytes() const { return device::bytes_of(narrow_); }

NarrowWeights::Scope::Scope(NarrowWeights& weights,
                            const std::function<size_t(const at::Tensor&)>& bucket_of)
    : weights_(weights) {
  std::map<size_t, std::vector<size_t>> buckets;
  for (size_t i = 0; i < weights_.wide_.size(); ++i) {
    *weights_.places_[i] = weights_.narrow_[i].detach();
    if (weights_.wide_[i].requires_grad()) buckets[bucket_of(weights_.wide_[i])].push_back(i);
  }
  for (const auto& [bucket, members] : buckets) {
    torch::autograd::edge_list edges;
    for (const size_t i : members)
      edges.push_back(torch::autograd::impl::gradient_edge(weights_.wide_[i]));
    const std::shared_ptr<torch::autograd::Node> node(new WidenGradients(std::move(edges)),
                                                      torch::autograd::deleteNode);
    for (const size_t i : members) torch::autograd::set_history(*weights_.places_[i], node);
  }
}

NarrowWeights::Scope::~Scope() {
  for (size_t i = 0; i < weights_.wide_.size(); ++i) *weights_.places_[i] = weights_.wide_[i];
}

}  // namespace dtrain::train

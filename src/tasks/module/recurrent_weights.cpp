#include "tasks/module/recurrent_weights.h"

#include <string>

#include "text/strings.h"

namespace dtrain::tasks {
namespace {

at::Tensor parameter(const torch::nn::Module& module, const std::string& name) {
  const auto parameters = module.named_parameters(/*recurse=*/false);
  const at::Tensor* found = parameters.find(name);
  return found == nullptr ? at::Tensor() : *found;
}

}  // namespace

std::optional<RecurrentWeights> recurrent_weights(const torch::nn::Module& module) {
  const at::Tensor first = parameter(module, "weight_ih_l0"),
                   recurrent = parameter(module, "weight_hh_l0");
  if (!first.defined() || !recurrent.defined()) return std::nullopt;
  const at::Tensor projecting = parameter(module, "weight_hr_l0");
  RecurrentWeights found;
  found.input = first.size(1);
  found.projection = projecting.defined() ? recurrent.size(1) : 0;
  found.hidden = projecting.defined() ? projecting.size(1) : recurrent.size(1);
  found.bidirectional = parameter(module, "weight_ih_l0_reverse").defined();
  const int64_t gates = first.size(0) / found.hidden;
  found.kind = gates == 4   ? RecurrentWeights::kLstm
               : gates == 3 ? RecurrentWeights::kGru
                            : RecurrentWeights::kRnn;
  for (; parameter(module, str("weight_ih_l", found.layers)).defined(); ++found.layers) {
    for (const char* way : {"", "_reverse"}) {
      found.per_layer = 0;
      for (const char* part :
           {"weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l", "weight_hr_l"}) {
        const at::Tensor weight = parameter(module, str(part, found.layers, way));
        if (!weight.defined()) continue;
        found.weights.push_back(weight);
        ++found.per_layer;
      }
      if (!found.bidirectional) break;
    }
  }
  return found;
}

void flatten_recurrent_weights(torch::nn::Module& root) {
  const at::NoGradGuard no_grad;
  root.apply([](torch::nn::Module& module) {
    const auto found = recurrent_weights(module);
    if (!found || !found->weights.front().is_cuda()) return;
    at::_cudnn_rnn_flatten_weight(found->weights, found->per_layer, found->input, found->kind,
                                  found->hidden, found->projection, found->layers,
                                  /*batch_first=*/true, found->bidirectional);
  });
}

}  // namespace dtrain::tasks

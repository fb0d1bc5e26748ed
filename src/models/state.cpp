#include "models/state.h"

#include <map>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::models {

void load_all(torch::nn::Module& module, const checkpoint::NamedTensors& tensors) {
  std::map<std::string, at::Tensor> source(tensors.begin(), tensors.end());
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  const auto match = [&](const torch::OrderedDict<std::string, at::Tensor>& items) {
    for (const auto& item : items) {
      const auto found = source.find(item.key());
      if (found == source.end())
        throw CheckpointError(str("there is no tensor '", item.key(), "': these are weights of another network"));
      if (found->second.sizes() != item.value().sizes()) {
        throw CheckpointError(dtrain::str("tensor '", item.key(), "' has shape ", found->second.sizes(),
                                          " in the file and ", item.value().sizes(), " in this network"));
      }
      copies.emplace_back(item.value().detach(), found->second);
      source.erase(found);
    }
  };
  match(module.named_parameters());
  match(module.named_buffers());
  if (!source.empty()) {
    throw CheckpointError(
        str("this network has no tensor '", source.begin()->first, "': these are weights of another network"));
  }
  const at::NoGradGuard no_grad;
  for (auto& [target, value] : copies) target.copy_(value);
}

void convert_floating_point(torch::nn::Module& module, at::ScalarType dtype) {
  for (const auto& tensors : {module.parameters(), module.buffers()}) {
    for (at::Tensor tensor : tensors) {
      if (tensor.is_floating_point() && tensor.scalar_type() != dtype) tensor.set_data(tensor.to(dtype));
    }
  }
}

}  // namespace dtrain::models

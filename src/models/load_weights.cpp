#include "models/load_weights.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/strings.h"

namespace dtrain::models {
namespace {

// dtrain::str is qualified because argument-dependent lookup also finds c10::str.
std::string shape(const at::Tensor& tensor) { return dtrain::str(tensor.sizes()); }

bool fits(const at::Tensor& here, const at::Tensor& there) {
  return here.sizes() == there.sizes() && here.is_floating_point() == there.is_floating_point();
}

// Older torchvision files lack the counters of batch norm, which are not used here.
bool is_optional(const std::string& name) { return name.ends_with("num_batches_tracked"); }

std::vector<std::pair<std::string, at::Tensor>> named_tensors(const Network& network) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& item : network.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : network.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

[[noreturn]] void refuse(std::vector<std::string> problems) {
  constexpr size_t kShown = 20;
  const size_t count = problems.size();
  if (count > kShown) {
    problems.resize(kShown);
    problems.push_back(dtrain::str("and ", count - kShown, " more"));
  }
  throw CheckpointError(dtrain::str(
      "the initial weights are of another network (", count,
      " tensors differ besides the last layer); choose a matching file or model.name:\n  ", join(problems, "\n  ")));
}

}  // namespace

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

std::vector<std::string> load_initial_weights(Network& network, const checkpoint::TensorFile& file) {
  std::map<std::string, at::Tensor> left(file.tensors.begin(), file.tensors.end());
  const auto is_head = [head = network.head_prefix()](const std::string& name) { return name.starts_with(head); };

  std::vector<std::pair<at::Tensor, at::Tensor>> copies, head_copies;
  std::vector<std::string> lines, problems, head_differences;
  for (const auto& [name, here] : named_tensors(network)) {
    const auto found = left.find(name);
    std::vector<std::string>& differences = is_head(name) ? head_differences : problems;
    if (found == left.end()) {
      if (is_optional(name)) continue;
      differences.push_back(dtrain::str(name, ": not in the file; ", shape(here), " here"));
    } else if (!fits(here, found->second)) {
      differences.push_back(dtrain::str(name, ": ", shape(found->second), " ", found->second.scalar_type(),
                                        " in the file; ", shape(here), " ", here.scalar_type(), " here"));
    } else {
      (is_head(name) ? head_copies : copies).emplace_back(here, found->second);
    }
    if (found != left.end()) left.erase(found);
  }
  for (const auto& [name, tensor] : left) {
    (is_head(name) ? head_differences : problems)
        .push_back(dtrain::str(name, ": ", shape(tensor), " in the file; not here"));
  }
  if (!problems.empty()) refuse(problems);

  // The last layer is either loaded completely or not at all.
  if (head_differences.empty()) copies.insert(copies.end(), head_copies.begin(), head_copies.end());
  const at::NoGradGuard no_grad;
  for (auto& [here, there] : copies) here.copy_(there);
  lines.push_back(dtrain::str("loaded ", copies.size(), " tensors"));
  if (!head_differences.empty()) lines.push_back("the last layer keeps its fresh values:");
  lines.insert(lines.end(), head_differences.begin(), head_differences.end());
  return lines;
}

}  // namespace dtrain::models

#include "models/load_weights.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "checkpoint/finite_values.h"
#include "core/error.h"
#include "text/strings.h"

namespace dtrain::models {
namespace {

// dtrain::str is qualified because argument-dependent lookup also finds c10::str.
std::string shape(const at::Tensor& tensor) { return dtrain::str(tensor.sizes()); }

bool fits(const at::Tensor& here, const at::Tensor& there) {
  return here.sizes() == there.sizes() && here.is_floating_point() == there.is_floating_point();
}

// Older torchvision files lack the counters of batch norm, which are not used here.
bool is_optional(const std::string& name) { return name.ends_with("num_batches_tracked"); }

checkpoint::NamedTensors named_tensors(const torch::nn::Module& network) {
  checkpoint::NamedTensors tensors;
  for (const auto& item : network.named_parameters())
    tensors.emplace_back(item.key(), item.value());
  for (const auto& item : network.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

// The parts of a name that end with a dot and that all names begin with: "module.model." of
// "module.model.fc.weight" and "module.model.fc.bias", if there are others.
std::string common_prefix(const checkpoint::NamedTensors& tensors) {
  if (tensors.empty()) return "";
  std::string_view prefix = tensors.front().first;
  for (const auto& [name, tensor] : tensors) {
    const auto differs = std::mismatch(prefix.begin(), prefix.end(), name.begin(), name.end());
    prefix = prefix.substr(0, static_cast<size_t>(differs.first - prefix.begin()));
  }
  return std::string(prefix.substr(0, prefix.rfind('.') + 1));
}

// Of the prefixes that all names have, the shortest that leaves most names of the module.
std::string wrapper_of(const std::map<std::string, at::Tensor>& here,
                       const checkpoint::NamedTensors& tensors) {
  const auto known_without = [&](size_t begin) {
    return std::ranges::count_if(
        tensors, [&](const auto& item) { return here.contains(item.first.substr(begin)); });
  };
  const std::string common = common_prefix(tensors);
  size_t best = 0;
  auto most = known_without(0);
  for (size_t dot = common.find('.'); dot != std::string::npos; dot = common.find('.', dot + 1)) {
    if (const auto known = known_without(dot + 1); known > most) {
      most = known;
      best = dot + 1;
    }
  }
  return common.substr(0, best);
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
      " tensors differ besides the last layer); choose a matching file or model.name:\n  ",
      join(problems, "\n  ")));
}

struct Copy {
  std::string name;
  at::Tensor here, there;
};

// CheckpointError for a value of float64 that the type of the network cannot hold.
void copy(const std::vector<Copy>& copies) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, here, there] : copies) {
    here.copy_(there);
    if (here.scalar_type() == there.scalar_type() || !checkpoint::not_finite(there).empty())
      continue;
    if (const std::string defect = checkpoint::not_finite(here); !defect.empty()) {
      throw CheckpointError(dtrain::str("tensor '", name, "' has a value that is too large for ",
                                        here.scalar_type(), ", the type of this network (", defect,
                                        ")"));
    }
  }
}

}  // namespace

void load_all(torch::nn::Module& module, const checkpoint::NamedTensors& tensors) {
  std::map<std::string, at::Tensor> source(tensors.begin(), tensors.end());
  std::vector<Copy> copies;
  const auto match = [&](const torch::OrderedDict<std::string, at::Tensor>& items) {
    for (const auto& item : items) {
      const auto found = source.find(item.key());
      if (found == source.end())
        throw CheckpointError(
            str("there is no tensor '", item.key(), "': these are weights of another network"));
      if (found->second.sizes() != item.value().sizes()) {
        throw CheckpointError(dtrain::str("tensor '", item.key(), "' has shape ",
                                          found->second.sizes(), " in the file and ",
                                          item.value().sizes(), " in this network"));
      }
      copies.push_back({item.key(), item.value().detach(), found->second});
      source.erase(found);
    }
  };
  match(module.named_parameters());
  match(module.named_buffers());
  if (!source.empty()) {
    throw CheckpointError(str("this network has no tensor '", source.begin()->first,
                              "': these are weights of another network"));
  }
  copy(copies);
}

Unwrapped unwrapped(const torch::nn::Module& module, checkpoint::NamedTensors tensors) {
  constexpr std::string_view kAverages = "n_averaged";
  const checkpoint::NamedTensors list = named_tensors(module);
  const std::map<std::string, at::Tensor> here(list.begin(), list.end());
  Unwrapped result;
  if (!here.contains(std::string(kAverages))) {
    const auto is_counter = [&](const auto& item) {
      const bool named =
          item.first == kAverages || item.first.ends_with(dtrain::str('.', kAverages));
      return named && item.second.numel() == 1;
    };
    if (std::erase_if(tensors, is_counter) > 0) {
      result.notices.push_back("left out n_averaged, the counter of AveragedModel");
    }
  }
  result.prefix = wrapper_of(here, tensors);
  if (!result.prefix.empty()) {
    result.notices.push_back(
        dtrain::str("removed '", result.prefix, "' from the names of all tensors"));
  }
  for (auto& [name, tensor] : tensors) {
    name.erase(0, result.prefix.size());
    const auto found = here.find(name);
    const bool counts =
        found != here.end() && !found->second.is_floating_point() && found->second.numel() == 1;
    if (counts && tensor.numel() == 1 && checkpoint::not_finite(tensor).empty())
      tensor = tensor.to(found->second.scalar_type()).reshape(found->second.sizes());
  }
  result.tensors = std::move(tensors);
  return result;
}

void check_finite(const torch::nn::Module& module, const checkpoint::NamedTensors& tensors,
                  const std::string& file, const std::string& prefix) {
  const auto buffers = module.named_buffers();
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor* own =
        name.starts_with(prefix) ? buffers.find(name.substr(prefix.size())) : nullptr;
    const bool is_mask = own != nullptr && !checkpoint::not_finite(*own).empty();
    if (!is_mask) checkpoint::check_finite(tensor, name, file);
  }
}

std::vector<std::string> load_initial_weights(Network& network,
                                              const checkpoint::TensorFile& file) {
  std::map<std::string, at::Tensor> left(file.tensors.begin(), file.tensors.end());
  const auto is_head = [head = network.head_prefix()](const std::string& name) {
    return name.starts_with(head);
  };

  std::vector<Copy> copies, head_copies;
  std::vector<std::string> lines, problems, head_differences;
  for (const auto& [name, here] : named_tensors(network)) {
    const auto found = left.find(name);
    std::vector<std::string>& differences = is_head(name) ? head_differences : problems;
    if (found == left.end()) {
      if (is_optional(name)) continue;
      differences.push_back(dtrain::str(name, ": not in the file; ", shape(here), " here"));
    } else if (!fits(here, found->second)) {
      differences.push_back(dtrain::str(name, ": ", shape(found->second), " ",
                                        found->second.scalar_type(), " in the file; ", shape(here),
                                        " ", here.scalar_type(), " here"));
    } else {
      (is_head(name) ? head_copies : copies).push_back({name, here, found->second});
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
  copy(copies);
  lines.push_back(dtrain::str("loaded ", copies.size(), " tensors"));
  if (!head_differences.empty()) lines.push_back("the last layer keeps its fresh values:");
  lines.insert(lines.end(), head_differences.begin(), head_differences.end());
  return lines;
}

}  // namespace dtrain::models

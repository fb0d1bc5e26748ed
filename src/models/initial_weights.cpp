#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/strings.h"
#include "models/models.h"

namespace dtrain::models {
namespace {

// dtrain::str in full: c10::str would be found as well, by the arguments' types.
std::string shape(const at::Tensor& tensor) { return dtrain::str(tensor.sizes()); }

bool fits(const at::Tensor& here, const at::Tensor& there) {
  return here.sizes() == there.sizes() && here.is_floating_point() == there.is_floating_point();
}

// Older torchvision files lack the counters of batch norm, which nothing here uses.
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
      " tensors differ besides the last layer); choose the file or model.name to match:\n  ", join(problems, "\n  ")));
}

}  // namespace

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

  // The last layer is replaced as a whole: half of it would be of no use.
  if (head_differences.empty()) copies.insert(copies.end(), head_copies.begin(), head_copies.end());
  const torch::NoGradGuard no_grad;
  for (auto& [here, there] : copies) here.copy_(there);
  lines.push_back(dtrain::str("loaded ", copies.size(), " tensors"));
  if (!head_differences.empty()) lines.push_back("the last layer keeps its fresh values:");
  lines.insert(lines.end(), head_differences.begin(), head_differences.end());
  return lines;
}

}  // namespace dtrain::models

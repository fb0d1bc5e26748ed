#include "models/freeze.h"

#include <fnmatch.h>

#include <algorithm>

#include "core/error.h"
#include "layers/batch_norm.h"
#include "text/strings.h"

namespace dtrain::models {
namespace {

// '*': any characters, dots too; '?': one. All other characters mean themselves: '[' starts no
// set, '\' escapes nothing.
bool matches(std::string_view pattern, const std::string& text) {
  std::string literal;
  for (const char c : pattern) literal += c == '[' ? "[[]" : std::string(1, c);
  return ::fnmatch(literal.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

// The name and those of the layers that contain it: "fc.0.weight", "fc.0", "fc".
std::vector<std::string> name_and_layers(std::string name) {
  std::vector<std::string> names = {name};
  for (size_t dot = name.rfind('.'); dot != std::string::npos; dot = name.rfind('.')) {
    name.resize(dot);
    names.push_back(name);
  }
  return names;
}

}  // namespace

bool matches_name(const std::string& pattern, const std::string& parameter) {
  const std::vector<std::string> names = name_and_layers(parameter);
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return matches(pattern, name); });
}

std::vector<std::string> freeze(torch::nn::Module& module,
                                const std::vector<std::string>& patterns) {
  std::vector<std::string> frozen, known;
  std::vector<at::Tensor> parameters;
  std::vector<bool> used(patterns.size());
  for (const auto& item : module.named_parameters()) {
    const std::vector<std::string> names = name_and_layers(item.key());
    known.insert(known.end(), names.begin(), names.end());
    bool any = false;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (matches_name(patterns[i], item.key())) used[i] = any = true;
    }
    if (!any) continue;
    frozen.push_back(item.key());
    parameters.push_back(item.value());
  }
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (used[i]) continue;
    const std::string near = nearest(patterns[i], known);
    throw ConfigError(str("model.freeze: '", patterns[i], "' matches no parameter or layer",
                          near.empty()
                              ? str("; a name here is '", known.empty() ? "" : known.front(), "'")
                              : str("; did you mean '", near, "'?")));
  }
  for (at::Tensor& parameter : parameters) parameter.set_requires_grad(false);
  // requires_grad() does not tell which parameters matched: a phase of the task may have frozen
  // others temporarily.
  const auto named = [&](const at::Tensor& parameter) {
    return std::ranges::any_of(parameters, [&](const auto& p) { return p.is_same(parameter); });
  };
  for (const auto& layer : module.modules()) {
    auto* norm = layer->as<layers::BatchNorm>();
    if (norm != nullptr && named(norm->weight) && named(norm->bias)) norm->freeze();
  }
  return frozen;
}

void freeze_batch_norm(torch::nn::Module& module) {
  for (const auto& layer : module.modules()) {
    if (auto* norm = layer->as<layers::BatchNorm>()) norm->freeze();
  }
}

}  // namespace dtrain::models

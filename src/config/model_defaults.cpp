#include "config/model_defaults.h"

#include <map>

namespace dtrain::config {

const std::vector<std::string>& networks_of(const std::string& task) {
  static const std::map<std::string, std::vector<std::string>> all = {
      {"headpose", {"headpose_cnn", "mobilenet_v2", "resnet18", "resnet50"}},
      {"classify", {"simple_cnn", "mobilenet_v2", "resnet18", "resnet50"}},
      {"pointer", {"pointer_network"}},
      {"sequence", {"cnn_lstm"}},
      {"module", {"torchscript"}},
  };
  static const std::vector<std::string> none;
  const auto found = all.find(task);
  return found == all.end() ? none : found->second;
}

std::string network_of(const Config& config) {
  const std::vector<std::string>& known = networks_of(config.task);
  return config.model.name != "auto" || known.empty() ? config.model.name : known.front();
}

double dropout_of(const Config& config) {
  if (config.model.dropout >= 0) return config.model.dropout;
  static const std::map<std::string, double> own = {
      {"headpose_cnn", 0.3}, {"simple_cnn", 0.5}, {"mobilenet_v2", 0.2}, {"pointer_network", 0.2}, {"cnn_lstm", 0.3}};
  const auto found = own.find(network_of(config));
  return found == own.end() ? 0 : found->second;
}

}  // namespace dtrain::config

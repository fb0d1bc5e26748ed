#include "models/network.h"

#include <array>

#include "core/error.h"
#include "core/strings.h"
#include "models/image_networks.h"
#include "models/initial_values.h"

namespace dtrain::models {
namespace {

struct Entry {
  const char* name;
  std::shared_ptr<Network> (*make)(const NetworkOptions&);
  LinearValues linear = LinearValues::kUniform;
};

constexpr std::array<Entry, 5> kNetworks = {
    {{"headpose_cnn", make_headpose_cnn},
     {"simple_cnn", make_simple_cnn},
     {"mobilenet_v2", make_mobilenet_v2, LinearValues::kNormal},
     {"resnet18", make_resnet18},
     {"resnet50", make_resnet50}}};

}  // namespace

std::shared_ptr<Network> make_network(const std::string& name, const NetworkOptions& options) {
  for (const Entry& entry : kNetworks) {
    if (name != entry.name) continue;
    std::shared_ptr<Network> network = entry.make(options);
    initialize(*network, options.seed, entry.linear);
    return network;
  }
  const std::vector<std::string> names = network_names();
  const std::string near = nearest(name, names);
  throw ConfigError(str("model.name: '", name, "' is not one of ", join(names, ", "),
                        near.empty() ? "" : "; did you mean '" + near + "'?"));
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kNetworks) names.emplace_back(entry.name);
  return names;
}

}  // namespace dtrain::models

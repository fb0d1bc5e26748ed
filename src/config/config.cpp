#include "config/config.h"

namespace dtrain::config {

catalog::NetworkId network_of(const Config& config) {
  if (config.model.name != catalog::NetworkId::kAuto) return config.model.name;
  return catalog::network_named(catalog::row(config.task).networks.front().name);
}

double dropout_of(const Config& config) {
  return config.model.dropout >= 0 ? config.model.dropout
                                   : catalog::row(network_of(config)).dropout;
}

}  // namespace dtrain::config

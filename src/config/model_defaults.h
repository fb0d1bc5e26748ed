#pragma once

// What "auto" means for the network. Pure.

#include "config/config.h"

namespace dtrain::config {

catalog::NetworkId network_of(const Config&);  // model.name, or the task's own network for "auto"
double dropout_of(const Config&);              // model.dropout, or the network's own for -1

}  // namespace dtrain::config

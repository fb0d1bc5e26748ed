#pragma once

// What "auto" means for the network, and which networks a task can train. Pure.

#include <string>
#include <vector>

#include "config/config.h"

namespace dtrain::config {

// The first is the task's own. Empty for an unknown task.
const std::vector<std::string>& networks_of(const std::string& task);

std::string network_of(const Config&);  // model.name, or the task's own network for "auto"
double dropout_of(const Config&);       // model.dropout, or the network's own for -1

}  // namespace dtrain::config

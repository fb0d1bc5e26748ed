#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/assembly.h"

namespace dtrain::config {

// Lays the keys of one YAML document over `assembly`. Problems go to the assembly, each with name:line:col. Returns the
// paths of the keys that it set or tried to set, each once. Never throws for what stands in `text`.
std::vector<std::string> lay_yaml(Assembly& assembly, std::string_view text, const std::string& name);

}  // namespace dtrain::config

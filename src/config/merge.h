#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace dtrain::config {

// `base` with the keys of `given` (dotted names) taken from `now`: a resumed run keeps its configuration, and only what this command
// line or file really says is laid over it.
Config with_given(const Config& base, const Config& now, const std::vector<std::string>& given);

}  // namespace dtrain::config

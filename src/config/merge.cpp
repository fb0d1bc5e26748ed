#include "config/merge.h"

#include <algorithm>

#include "config/table.h"

namespace dtrain::config {

Config with_given(const Config& base, const Config& now, const std::vector<std::string>& given) {
  Config merged = base, source = now;
  const std::vector<Option> to = describe(merged), from = describe(source);
  for (size_t i = 0; i < to.size(); ++i) {
    if (std::find(given.begin(), given.end(), to[i].path) == given.end()) continue;
    std::visit(
        [&](auto* target) { *target = *std::get<decltype(target)>(from[i].target); },
        to[i].target);
  }
  return merged;
}

}  // namespace dtrain::config

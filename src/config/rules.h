#pragma once

// The rules that involve more than one key, and what to say where they are broken. Pure.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace dtrain::config {

// Where a key was set, by its dotted name: "dtrain.yaml:3:7" or "--lr". Keys that have their
// defaults are not in it.
using Places = std::map<std::string, std::string, std::less<>>;

struct Problem {
  std::string where, what;
};

// Problems with the name and the folder of a run, which are needed before anything is read.
std::vector<Problem> broken_run_rules(const Config&, const Places&);

// All others. `given`: the keys that the user set, none of which may be outside of its scope.
std::vector<Problem> broken_rules(const Config&, const Places&,
                                  const std::vector<std::string>& given);

// One ConfigError with all of them, in their order; nothing if there are none.
void throw_problems(const std::vector<Problem>&);

}  // namespace dtrain::config

#pragma once

// Everything that is printed from the table of keys: a config as YAML, the help, and
// docs/configuration.md. Pure.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace dtrain::config {

// The keys that the run uses, in the order of the table. Can be loaded again.
std::string to_yaml(const Config&);

// Only these keys, of those that the run uses, in the order of the table; the comments by key.
std::string to_yaml(const Config&, const std::vector<std::string>& keys,
                    const std::map<std::string, std::string, std::less<>>& comments);

// 16 hexadecimal digits that are equal where all keys are but those of `run`: the name and folder
// of a run are not part of what it trains.
std::string hash(const Config&);

std::string help_text();  // the keys by section, with alias, default, range, text
// The keys of all runs that have a short name, the most common first: --alias, text, default.
std::string alias_help_text();
std::string reference_markdown();  // docs/configuration.md

}  // namespace dtrain::config

#pragma once

// Everything that is printed from the table of keys: a config as YAML, the help, and docs/configuration.md. Pure.

#include <string>

#include "config/config.h"

namespace dtrain::config {

std::string to_yaml(const Config&);  // can be loaded again; keys in the order of the table

std::string help_text();           // the keys by section, with alias, default, range, text
std::string alias_help_text();     // the keys that have a short name: --alias, text, default
std::string reference_markdown();  // docs/configuration.md

}  // namespace dtrain::config

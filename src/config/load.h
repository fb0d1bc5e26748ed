#pragma once

// From files and flags to a checked Config. Layers, later wins: the defaults, the embedded config that --dataset NAME
// names, the YAML file, the flags. Every unknown key, duplicate key, wrong type and value out of range of all layers is
// collected and thrown as one ConfigError, each with file:line:col (or the flag) and the nearest valid name.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace dtrain::config {

// What stands on a command line behind the command: `[CONFIG.yaml] [--section.key VALUE | --alias VALUE]...`
struct Loaded {
  Config config;
  std::string source;                  // which file or embedded config it began with, for the banner
  std::vector<std::string> given;      // dotted names set by the file or a flag, each once
};

// `arguments` are those behind the command. Without a config file it is ./dtrain.yaml in `folder`, and without that
// the embedded quick start. Throws ConfigError (all problems), UsageError (e.g. two config files).
Loaded load(const std::vector<std::string>& arguments, const std::filesystem::path& folder = ".");

std::string to_yaml(const Config&);                       // reusable as input; keys in the table's order
Config from_yaml(std::string_view text, std::string_view name);  // strict, over the defaults
std::string help_text();                                  // the keys by section, with alias, default, range, text
std::string reference_markdown();                         // docs/configuration.md

// Names of keys whose value a resume may not change and which differ (product: network, global batch, seed, ...).
std::vector<std::string> fixed_differences(const Config& saved, const Config& now);
std::vector<std::string> differences(const Config& saved, const Config& now);  // "train.epochs: 2 -> 4", all others

std::optional<std::string_view> embedded(std::string_view name);  // text of configs/NAME.yaml, built into the binary

}  // namespace dtrain::config

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

struct LoadOptions {
  std::vector<std::string> other_flags = {};  // the caller's own ("--dry-run"), as suggestions for mistyped ones
  bool check_dataset = true;                  // false (--print-config): do not ask for the file of --dataset NAME
};

struct Loaded {
  Config config;
  std::string source;              // which file or embedded config it began with, for the banner
  std::vector<std::string> given;  // dotted names set by the file or a flag, each once
};

// `arguments` are those behind the command, without the caller's own flags:
// `[CONFIG.yaml] [--section.key VALUE | --section.key=VALUE | --alias VALUE]...`. Without a config file it is
// ./dtrain.yaml in `folder`, and without that the embedded quick start, unless a flag names the data.
// Throws ConfigError (all problems), UsageError (two config files), DataError (--dataset NAME, not converted yet).
Loaded load(const std::vector<std::string>& arguments, const std::filesystem::path& folder = ".",
            const LoadOptions& = {});

std::string to_yaml(const Config&);                              // reusable as input; keys in the table's order
Config from_yaml(std::string_view text, std::string_view name);  // strict, over the defaults
std::string help_text();           // the keys by section, with alias, default, range, text
std::string alias_help_text();     // the keys that have a short name: --alias, text, default
std::string reference_markdown();  // docs/configuration.md

// Names of keys whose value a resume may not change and which differ (product: network, global batch, seed, ...).
// A global batch of 0 in `now` means the saved one; `saved` is a resolved config.
std::vector<std::string> fixed_differences(const Config& saved, const Config& now);
std::vector<std::string> differences(const Config& saved, const Config& now);  // "train.epochs: 2 -> 4", all others
void set(Config&, std::string_view path, std::string_view text);  // one key; ConfigError if it cannot have this value
void copy_keys(const Config& from, Config& to, const std::vector<std::string>& paths);  // e.g. those given on a resume

std::optional<std::string_view> embedded(std::string_view name);  // text of configs/NAME.yaml, built into the binary

}  // namespace dtrain::config

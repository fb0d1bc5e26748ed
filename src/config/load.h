#pragma once

// Makes a checked Config from files and flags. The layers, of which later ones win, are the defaults, the embedded
// config that --dataset NAME names, the YAML file and the flags. Every unknown key, duplicate key, wrong type and value
// out of range in any layer is reported in one ConfigError, each with file:line:col (or the flag) and
// the nearest valid name.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace dtrain::config {

struct LoadOptions {
  std::vector<std::string> other_flags = {};  // of the caller ("--dry-run"), suggested for mistyped ones
  bool check_dataset = true;                  // false (--print-config): do not ask for the file of --dataset NAME
};

struct Loaded {
  Config config;
  std::string source;              // the file or embedded config that was used, for the banner
  std::vector<std::string> given;  // dotted names of the keys that the file or a flag set, each once
};

// `arguments` are those after the command, without the caller's own flags:
// `[CONFIG.yaml] [--section.key VALUE | --section.key=VALUE | --alias VALUE]...`. The default config file is
// ./dtrain.yaml in `folder`. Without one the embedded quick start is used, unless a flag names the data. Errors:
// ConfigError (all problems), UsageError (two config files), DataError (--dataset NAME is not converted yet).
Loaded load(const std::vector<std::string>& arguments, const std::filesystem::path& folder = ".",
            const LoadOptions& = {});

std::string to_yaml(const Config&);                              // can be loaded again; keys in the order of the table
Config from_yaml(std::string_view text, std::string_view name);  // strict, over the defaults
std::string help_text();           // the keys by section, with alias, default, range, text
std::string alias_help_text();     // the keys that have a short name: --alias, text, default
std::string reference_markdown();  // docs/configuration.md

// The keys that differ although they cannot change when a run is resumed (network, global batch, seed, ...). A global
// batch of 0 in `now` means the saved one; `saved` is a resolved config.
std::vector<std::string> fixed_differences(const Config& saved, const Config& now);
std::vector<std::string> differences(const Config& saved, const Config& now);  // "train.epochs: 2 -> 4", all others
void set(Config&, std::string_view path, std::string_view text);  // one key; ConfigError if it cannot have this value
void copy_keys(const Config& from, Config& to,
               const std::vector<std::string>& paths);  // e.g. those given when a run is resumed

std::optional<std::string_view> embedded(std::string_view name);  // text of configs/NAME.yaml, built into the binary

}  // namespace dtrain::config

#pragma once

// Makes a checked Config from files and flags. The layers, of which later ones win, are the
// defaults, the embedded config that --dataset NAME names, the YAML file and the flags. A batch
// size or accumulate of the last two takes the place of an embedded global batch. Every unknown
// key, duplicate key, wrong type and value out of range in any layer is reported in one
// ConfigError, each with file:line:col (or the flag) and the nearest valid name.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "config/config.h"
#include "config/rules.h"

namespace dtrain::config {

// The environment variable by which `dtrain launch` hands the config file that it has read to all
// its jobs: the file's name ("": none), a line feed, and its text. Where it is set, load() reads no
// file, whatever has become of it.
inline constexpr const char* kLaunchConfig = "DTRAIN_LAUNCH_CONFIG";

struct LoadOptions {
  // The caller's own flags ("--dry-run"), suggested for mistyped ones
  std::vector<std::string> other_flags = {};
  bool check_dataset = true;  // false (--print-config): do not ask for the file of --dataset NAME
};

// What a config says of the global batch, for the banner: the run may have another one.
struct ConfigBatch {
  int64_t global_batch = 0;  // 0: it says nothing
  std::string source;        // "the embedded headpose_300wlp", "dtrain.yaml"
};

struct Loaded {
  Config config;
  std::string source;            // the file or embedded config that was used, for the banner
  std::string config_file = {};  // that was read, relative to the folder of load(); "": none
  std::string config_text = {};  // text of that file
  // Dotted names of the keys that the file or a flag set, each once
  std::vector<std::string> given;
  Places places = {};  // where these keys, and those of an embedded config, were set
  // Neither task, data nor a file is given: the embedded quick start is a guess
  bool is_demo = false;
  // Batch of an embedded config; does not count, because a batch size or accumulate is given
  ConfigBatch overruled = {};
  // Batch for which the config sets the learning rate; none where a flag sets the rate
  ConfigBatch of_rate = {};

  bool gives(std::string_view path) const;
};

// `arguments` are those after the command, without the caller's own flags:
// `[CONFIG.yaml] [--section.key VALUE | --section.key=VALUE | --alias VALUE]...`. The default
// config file is ./dtrain.yaml in `folder`; kLaunchConfig takes the place of any. Without one the
// embedded quick start is used, unless a flag names the data. With run.resume, the rules between
// keys are left to the caller, who knows the configuration that is resumed: broken_rules(). Errors:
// ConfigError (all problems), UsageError (two config files), DataError (--dataset NAME is not
// converted yet).
Loaded load(const std::vector<std::string>& arguments, const std::filesystem::path& folder = ".",
            const LoadOptions& = {});

// "--optimizer.lr", "--lr=1", "--dataset": a flag of load() for a key
bool names_key(std::string_view flag);

// Strict, over the defaults; ConfigError
Config from_yaml(std::string_view text, std::string_view name);

// The configuration that a run saved, of this version or an earlier one: keys that do nothing for
// its task and the former units of intervals are accepted, and the latter listed.
// `optimizer.decay_norms_and_biases`, if missing, is true, as before it existed; other missing keys
// have their default. ConfigError.
struct SavedConfig {
  Config config;
  std::string notice;  // for the log; "": none
};
SavedConfig saved_config(std::string_view text, std::string_view name);

// The file of a named data set, "data/NAME.h5": `dtrain convert NAME` writes it, and every command
// reads it for `--dataset NAME`.
std::string file_of_data_set(std::string_view name);
// DataError that says which command makes `file`, if it is not there.
void require_data_set(const catalog::DataSetEntry&, const std::filesystem::path& file);

// Text of configs/NAME.yaml, built into the binary
std::optional<std::string_view> embedded(std::string_view name);

}  // namespace dtrain::config

#pragma once

// RUNS/targets/prometheus.yml: a configuration of Prometheus that finds every run of the folder
// RUNS, wherever Prometheus is started, and dtrain_rules.yml beside it. They are made from the
// files of monitoring/prometheus/, which the program contains.

#include <filesystem>
#include <optional>
#include <string_view>

#include "os/file_system.h"

namespace dtrain::monitoring {

// Writes the two files into the folder of the targets files, atomically. A file that the user has
// changed is kept, and one that an older dtrain wrote is replaced: the first line has the hash of
// the rest. Throws OutputError.
void write_prometheus_config(FileSystem& files, const std::filesystem::path& targets_folder);

// The text of monitoring/prometheus/NAME.yml or rules/NAME.yml in the source tree.
std::optional<std::string_view> shipped_prometheus_file(std::string_view name);

}  // namespace dtrain::monitoring

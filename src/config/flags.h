#pragma once

// Splits a command line by the table. CLI11 is not used here, because it stops at the first error,
// where all of them should be reported with the nearest valid name, and because every key would
// have to be declared a second time.

#include <string>
#include <vector>

#include "config/config_builder.h"

namespace dtrain::config {

struct Flag {
  std::string spelling;  // the flag as typed: "--lr"
  std::string path;      // what it names: "optimizer.lr"
  std::string value;
};

struct CommandLine {
  std::string config_file;  // the path as typed; "": none
  std::vector<Flag> flags;  // known, each path once
  std::vector<Problem> problems;
};

// `--key VALUE` or `--key=VALUE`; `--key` alone means true if true is one of its values.
// `other_flags` ("--dry-run") are those of the caller, for suggestions only. Errors: UsageError for
// a second config file.
CommandLine split_command_line(const std::vector<std::string>& arguments,
                               const std::vector<Option>& options,
                               const std::vector<std::string>& other_flags);

}  // namespace dtrain::config

#pragma once

// Splits a command line by the table. CLI11 does not serve here: it stops at the first error, where people are to see
// all of them with the nearest valid name, and it would need each key to be said a second time.

#include <string>
#include <vector>

#include "config/assembly.h"

namespace dtrain::config {

struct Flag {
  std::string spelling;  // as typed: "--lr"
  std::string path;      // what it names: "optimizer.lr"
  std::string value;
};

struct CommandLine {
  std::string config_file;  // as typed; "": none
  std::vector<Flag> flags;  // known, each path once
  std::vector<Problem> problems;
};

// `--key VALUE` or `--key=VALUE`; `--key` alone means true where the value is true | false. `other_flags` ("--dry-run")
// are those of the caller, for suggestions only. Throws UsageError for a second config file.
CommandLine split_command_line(const std::vector<std::string>& arguments, const std::vector<Option>& options,
                               const std::vector<std::string>& other_flags);

}  // namespace dtrain::config

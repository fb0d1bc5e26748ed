#pragma once

// One line about each run of a folder, for `dtrain ls`. Reads the ends of the files only, so that a
// thousand runs take a second or two however long they were. Thread-safety: pure but for the
// file system.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "report/run_records.h"

namespace dtrain::report {

struct RunSummary {
  std::string name;
  std::filesystem::path folder;
  RunState state = RunState::kNothing;
  std::string problem;  // what is wrong with a damaged folder; "": nothing
  std::string task, network, metric;
  int64_t step = 0, total_steps = 0;       // 0: unknown
  int64_t epochs = 0, planned_epochs = 0;  // done; 0: unknown
  double best = kUnknown;                  // value of `metric`
  double samples_per_second = kUnknown;    // the median of its last step records
  double last_time = kUnknown;             // last record or folder change, seconds since 1970
  int64_t bytes_read = 0;                  // read by summarize(), for its test
};

RunSummary summarize(const std::filesystem::path& run);

// The runs in `folder`, or the one that it is, newest first. DataError if there is no such folder,
// or no run in it.
std::vector<RunSummary> list_runs(const std::filesystem::path& folder);

std::string runs_table(const std::vector<RunSummary>&, double now);  // `now`: seconds since 1970
std::string runs_json(const std::vector<RunSummary>&);

}  // namespace dtrain::report

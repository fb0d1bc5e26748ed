#pragma once

// The checkpoints of a run as `dtrain inspect RUN` lists them.

#include <filesystem>
#include <string>

#include "core/parallel.h"

namespace dtrain::job {

struct RunReport {
  // a line for each checkpoint, newest first: the watched metric; which is newest, and best
  std::string text;
  int damaged = 0;
  std::filesystem::path newest;  // the newest one that verifies
};

// With `verify`, all files of all checkpoints are read; without it, those of the newest one, and
// manifest and state of the others. CheckpointError: no checkpoint that verifies.
RunReport inspect_run(const std::filesystem::path& run, bool verify,
                      const ReportProgress& report = {});

}  // namespace dtrain::job

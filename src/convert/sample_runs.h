#pragma once

// Samples in runs, each of which one thread reads or writes at once. Small parts of one file are
// many in a run, because each run costs a few calls of the system. A file has a run of its own, so
// that an interruption loses no file that was read.

#include <cstdint>
#include <functional>

#include "convert/raw_set.h"
#include "core/parallel.h"

namespace dtrain::convert {

int64_t samples_in_run(const RawSet&);

// Calls work(first, count) for runs of `in_run` samples on several threads. `work` returns how many
// of its samples it finished, which are added to start.done and reported as parts of start.done
// + total.
// Errors: those of `work` and `report`.
void for_runs(int64_t samples, int64_t in_run, int threads,
              const std::function<int64_t(int64_t, int64_t)>& work, int64_t total,
              const ReportProgress& report, const Progress& start);

}  // namespace dtrain::convert

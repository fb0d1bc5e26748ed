#pragma once

// A loop over many items on several threads, with progress reports.

#include <cstdint>
#include <functional>

namespace dtrain {

// How much of a long task is done.
struct Progress {
  // kMilliseconds: of a limit, at which the task ends at the latest. Its rate is that of its
  // trials, which take different times.
  enum class Unit { kSamples, kBytes, kMilliseconds };
  const char* stage = "";       // the part of the task that runs: "reading", then "writing"
  int64_t done = 0, total = 0;  // counted in `unit`
  int64_t resumed = 0;          // those of `done` that an earlier, interrupted run did
  Unit unit = Unit::kSamples;
  int64_t trials = 0;  // that ended, since the task began; of kMilliseconds
};
using ReportProgress = std::function<void(const Progress&)>;

// The number of cores in the affinity mask of this process (set by taskset, a container or Slurm),
// which std::thread::hardware_concurrency() ignores. Thread-safe.
int usable_cores();

// Calls work(i) for all i in [0, count) on `threads` threads (0: one for each core that this
// process may use). `report`, if not empty, is called on the calling thread ten times a second and
// at the end, with the stage of `start` and the items of `start` plus those done since. The first
// exception that `work` or `report` throws stops the loop and is rethrown when every thread has
// finished its item.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t)>& work,
                  const ReportProgress& report = {}, const Progress& start = {});

}  // namespace dtrain

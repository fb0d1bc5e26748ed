#include "convert/sample_runs.h"

#include <algorithm>
#include <atomic>

namespace dtrain::convert {

int64_t samples_in_run(const RawSet& set) {
  constexpr int64_t kRunBytes = 1 << 18, kMost = 1024;
  if (set.samples_are_files()) return 1;
  const int64_t each =
      set.expected_bytes() / static_cast<int64_t>(std::max<size_t>(set.samples().size(), 1));
  return std::clamp<int64_t>(kRunBytes / std::max<int64_t>(each, 1), 1, kMost);
}

void for_runs(int64_t samples, int64_t in_run, int threads,
              const std::function<int64_t(int64_t, int64_t)>& work, int64_t total,
              const ReportProgress& report, const Progress& start) {
  std::atomic<int64_t> done{0};
  const auto report_samples = [&](const Progress&) {
    Progress now = start;
    now.done += done;
    now.total = start.done + total;
    report(now);
  };
  parallel_for(
      (samples + in_run - 1) / in_run, threads,
      [&](int64_t run) { done += work(run * in_run, std::min(in_run, samples - run * in_run)); },
      report ? ReportProgress(report_samples) : report);
}

}  // namespace dtrain::convert

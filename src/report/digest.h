#pragma once

// What a reader of a report wants to know first, computed from the records of a run. Pure.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "report/run_records.h"

namespace dtrain::report {

// The phases as people see them: those of metrics.jsonl, and what no phase covers.
inline constexpr size_t kParts = measure::kPhases + 1;
using Parts = std::array<double, kParts>;
const char* part_name(size_t part);  // "waiting for data", "forward", ..., "other"
Parts parts_of(const PhaseSeconds&, double other_seconds);
// the rest of the wall time is `other`, also where the file does not say it
Parts parts_of(const StepWindow&);

struct RankDigest {
  int64_t rank = 0;
  Parts seconds{};               // per step
  double computing = 0;          // forward + backward + optimizer, per step
  double cores_busy = kUnknown;  // with its threads, on average
  measure::Values values = {};   // per step, over the whole run
};

// A slow step, or of older files the mean of a window in which there are slow steps.
struct SlowWindow {
  int64_t first = 0, last = 0;                 // steps
  double step_seconds = 0, usual_seconds = 0;  // usual: the median of all windows
  std::string cause;  // the part that exceeds its median most, by how much, and on which rank
};

struct Digest {
  double samples_per_second = kUnknown;  // the median of `speeds`
  std::vector<double> speeds;            // samples/s of the windows after warm-up
  double step_seconds = kUnknown;        // likewise
  double joules_per_sample = kUnknown;   // all GPUs together; unknown if any rank's is unknown
  Parts parts{};                         // seconds of rank 0 over the whole run
  double seconds = 0;              // sum of all parts, without time between two processes of a run
  std::vector<RankDigest> ranks;   // ordered by rank; empty in older files
  double load_balance = kUnknown;  // mean ÷ largest computing time of a rank
  std::vector<SlowWindow> slow;    // longest first
  double memory_bytes = kUnknown, memory_total_bytes = kUnknown;  // the most
  double epochs = 0;                                              // done, with fractions
  int64_t planned_epochs = 0, step = 0, planned_steps = 0;        // 0: unknown
  const RecordedEvaluation* last_val = nullptr;  // points into the records, which must live as long
  const RecordedEvaluation* last_test = nullptr;
};

Digest digest(const RunRecords&);

double median(std::vector<double> values);  // NaN of none; values that are not finite do not count

// The windows after warm-up: without the first one and those of the first 20 steps, as long as four
// are left.
std::vector<const StepWindow*> after_warm_up(const std::vector<StepWindow>&);

}  // namespace dtrain::report

#pragma once

// What `dtrain predict` prints at its end: how many inputs, how fast. Pure: text from numbers.

#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::cli {

struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0;
};
// Nearest rank: each is one of the values. Requires at least one value.
Percentiles percentiles(std::vector<double> values);

struct Timing {
  double warm_up = 0;             // seconds of the first step: reading, forward, rows
  double rest = 0;                // seconds of all other steps
  int64_t rest_samples = 0;       // all ranks, without the first step
  std::vector<double> latencies;  // seconds; this rank's batches after the first
};

struct SpeedReport {
  std::string checkpoint, chosen;  // see EvalReport
  int64_t samples = 0, bad = 0, batch_size = 0;
  int ranks = 1;
  Timing timing;                  // measured on rank 0
  std::vector<double> latencies;  // seconds; batches of all ranks after their first
};
std::string speed_report(const SpeedReport&);  // a few lines, the last one ends with a newline

}  // namespace dtrain::cli

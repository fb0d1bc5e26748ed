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
  double rest = 0;                // of all others
  int64_t rest_samples = 0;       // of all ranks
  std::vector<double> latencies;  // of this rank's batches after the first
};

struct SpeedReport {
  std::string checkpoint, chosen;  // as in EvalReport
  int64_t samples = 0, bad = 0, batch_size = 0;
  int ranks = 1;
  Timing timing;                  // of rank 0
  std::vector<double> latencies;  // of all ranks
};
std::string speed_report(const SpeedReport&);  // a few lines, the last one ends with a newline

}  // namespace dtrain::cli

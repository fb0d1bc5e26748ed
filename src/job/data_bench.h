#pragma once

// Measures the loader of a run alone, without a network: `dtrain bench data`. Cold: the page cache
// was asked to drop the file before, so that samples come from the disk; warm: the same samples
// again. Reader threads and both kinds are measured alternately, several times.

#include <optional>
#include <vector>

#include "core/spread.h"
#include "job/training_job.h"

namespace dtrain::job {

struct DataBenchOptions {
  std::vector<int> threads;  // reader threads per rank to compare; those of rank 0 count
  int rounds = 3;            // measurements of each kind; the value of rank 0 counts
  double seconds = 1;        // time for one measurement
  bool cold = true;          // false: the page cache keeps what it has, and there are no cold rates
};

struct LoadingRate {
  // reader threads per rank; 0: no loader, but a loop of reads in the run's order on one thread
  int threads = 0;
  bool cold = false;
  Spread samples_per_second = {};      // all ranks together
  Spread cpu_seconds_per_sample = {};  // CPU time of the whole processes
  double bytes_per_sample = 0;         // stored size
  // One reader thread's time for one sample, and the share of all readers' time in which they had
  // no room for more.
  double read_seconds = 0, decode_seconds = 0, augment_seconds = 0, full_share = 0;
};

struct DataBench {
  std::vector<LoadingRate> rates = {};  // first the loop of reads; by threads, cold before warm
  // The largest share of the file that stayed in memory when it should have been dropped; nullopt:
  // unknown. Then, or if it is more than kMostKept, there are no cold rates.
  std::optional<double> kept = {};
  static constexpr double kMostKept = 0.05;
  bool has_cold() const { return kept && *kept <= kMostKept; }
};

// Collective; every rank gets the same result.
DataBench bench_data(const PreparedRun&, const DataBenchOptions&);

// 1, 2, 4, ... and all `cores`, and `own`, the number that the run would use; ascending. Pure.
std::vector<int> threads_to_compare(int cores, int own);

// The warm rate with the most samples per second. Requires: there is one with a loader.
const LoadingRate& best_rate(const DataBench&);

}  // namespace dtrain::job

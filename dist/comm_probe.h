#pragma once

// Measures the operations of a communicator by size: for `dtrain bench comm`, and, in a fraction of
// a second at the start of a run, for the α-β fit (cost_fit.h) that its waiting times are
// compared with.
//
// Sizes and bandwidths are those of nccl-tests (doc/PERFORMANCE.md there), so that its figures can
// be compared with these: the size of all_gather is that of all ranks together. A time is that of
// the slowest rank. Sizes are measured alternately, not one after the other, so that a change in
// the load of the machine does not look like an effect of the size; the first operation of each
// size is not counted.
//
// Errors: what the communicator throws. Thread-safety: as the communicator; nothing else may use
// it meanwhile.

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/clock.h"
#include "core/spread.h"
#include "dist/communicator.h"
#include "dist/cost_fit.h"
#include "dist/traffic.h"

namespace dtrain::dist {

struct ProbeOptions {
  std::vector<Collective> operations = {Collective::kAllReduce};
  // Sizes in bytes, ascending; each is rounded to whole values on every rank
  std::vector<int64_t> sizes = {};
  at::ScalarType dtype = at::kFloat;
  double seconds = 0.2;        // about how long it takes in all
  int most_repetitions = 100;  // upper limit for each size of each operation
  // Compares the result of the first operation of each size with what it must be
  bool check_values = false;
  // Called after each operation, outside of its time: for a watchdog
  std::function<void()> progress = {};
  const Clock* clock = &real_clock();  // borrowed
};

struct ProbedSize {
  Collective operation = Collective::kAllReduce;
  int64_t bytes = 0;     // size as nccl-tests counts it
  int64_t elements = 0;  // values that one rank passes
  at::ScalarType dtype = at::kFloat;
  Spread seconds = {};  // over the repetitions
  // Values that are not what they must be, of the rank with the most (check_values)
  int64_t wrong = 0;
};

// Every rank gets the same result, by operation and then by size. Sizes for which there is no time
// are left out, the largest first; two of them are always measured. A barrier has one row, of no
// bytes. Collective.
std::vector<ProbedSize> probe(Communicator&, at::Device, const ProbeOptions&);

// The cost of all_reduce, for the start of a run. All is 0 on one rank, where nothing
// travels. Collective.
CostFit probe_all_reduce(Communicator&, at::Device, double seconds = 0.2,
                         const Clock& = real_clock());

// Fits the medians of one operation.
CostFit fit_cost(std::span<const ProbedSize>, Collective);

double algorithm_bandwidth(const ProbedSize&);  // bytes per second: size / median time
// That × the share of the data that a link of each rank carries
double bus_bandwidth(const ProbedSize&, int ranks);

// How often each size is measured: all get the same share of `budget` seconds, but each is measured
// three times or more, and `most` times at most. `seconds`: of one operation. Pure.
std::vector<int> plan_repetitions(std::span<const double> seconds, double budget, int most);

}  // namespace dtrain::dist

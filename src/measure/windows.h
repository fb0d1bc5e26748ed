#pragma once

// The windows of all ranks that a run keeps, in their order, and what they say of a rank. Plain
// values; the functions are pure.

#include <deque>
#include <vector>

#include "measure/rank_sample.h"

namespace dtrain::measure {

// The resident memory of a rank after this many steps.
struct MemoryPoint {
  double steps = 0, bytes = 0;
};

// The memory of a rank over a whole run, in a bounded number of evenly spaced points.
struct MemoryCurve {
  std::vector<MemoryPoint> points = {};  // at most 64, at least `spacing` steps apart
  double steps = 0, spacing = 0;

  void add(const RankSample&);
};

// What stays of the windows of a rank that are no longer kept. Half of the readers load so few
// batches alone that the newest windows may have none, and memory may grow slowly.
struct EarlierWindows {
  Total total = {};
  MemoryCurve memory = {};

  void add(const RankSample&);
};

// What all ranks measured between two calls of RunMeasurements::gather() (run_measurements.h).
struct MeasuredWindow {
  std::vector<RankSample> ranks;  // over the same steps
  // The windows before this one, one entry per rank; empty: all of them are kept.
  std::vector<EarlierWindows> earlier = {};

  double steps() const { return ranks.at(0).steps; }
};
using Windows = std::deque<MeasuredWindow>;

// The windows of a rank as one; all unknown without windows.
Values per_step(const Windows&, size_t rank);
// The same with those that are no longer kept.
Total total_of_run(const Windows&, size_t rank);
// Over the whole run. The points are evenly spaced, so that half of them cover half of it.
std::vector<MemoryPoint> memory_of(const Windows&, size_t rank);

}  // namespace dtrain::measure

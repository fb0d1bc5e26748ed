#pragma once

// What the ranks have measured of their steps and of their machines, gathered to rank 0 at logging
// steps and once at the end of the warm-up. The first steps of a process are left out, because they
// allocate memory and start threads, and of very long runs the newest steps are kept. Borrows the
// communicator. Thread-safety: none; the training thread owns it.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "diagnose/evidence.h"
#include "diagnose/what_if.h"
#include "dist/communicator.h"
#include "monitoring/rank_stats.h"
#include "train/resource_meter.h"

namespace dtrain::train {

class RunMeasurements {
 public:
  static constexpr size_t kWarmUpSteps = 5;

  // What stays of a rank's windows that are no longer kept. Half of the readers load so few batches
  // alone that the newest windows may have none, memory may grow slowly, and what counts up needs a
  // value to begin from.
  struct Earlier {
    data::LoaderStats loads = {};
    RunTotals totals = {};  // at the end of the last of them
    double steps = 0;
    std::vector<diagnose::MemoryPoint> memory = {};  // at most 64, at least `spacing` steps apart
    double spacing = 0;

    void add(size_t steps, const ResourceSample&);
  };

  // What all ranks measured between two calls of gather(), by rank.
  struct Window {
    size_t steps = 0;
    std::vector<ResourceSample> ranks;
    std::vector<Earlier> earlier =
        {};  // by rank, of the windows before this one; empty: all of them are kept
  };

  explicit RunMeasurements(dist::Communicator& host);

  // The steps that this rank has ended since the last call; every rank has ended the same.
  // `resources`: over the same time, or, if not `of_steps_alone`, also over work after them: then a
  // window is kept only if it is the first.
  // This is collective.
  void gather(const std::vector<monitoring::StepTimes>& own, const ResourceSample& resources,
              bool of_steps_alone = true);

  // By rank, of the same steps. Rank 0 knows those of all ranks, other ranks nothing.
  const std::vector<diagnose::Steps>& steps() const { return steps_; }
  // The windows that those steps are of. Rank 0.
  const std::deque<Window>& windows() const { return windows_; }
  // The means over the last gathered steps, by rank; none where no step had ended. Of more than 64
  // ranks those 8 that wait least for the others: they are the ones that the others wait for.
  // Rank 0.
  const std::vector<monitoring::RankStats>& last() const { return last_; }
  const std::optional<monitoring::RankStats>& own() const {
    return own_;
  }  // on every rank, of warm-up too
  // The step of the last gathered ones that took longest: for its slowest rank, without the wait
  // for the others, and for the network. `newest`: the number of the last of them. None where no
  // step had ended. Rank 0.
  std::optional<monitoring::SlowStep> slowest(int64_t newest) const;

 private:
  void keep(const std::vector<monitoring::StepTimes>& all, size_t count);

  dist::Communicator& host_;
  size_t most_;      // steps that are kept
  size_t left_out_;  // of warm-up, still to come
  std::vector<diagnose::Steps> steps_;
  std::deque<Window> windows_;
  std::vector<monitoring::RankStats> last_;
  std::optional<monitoring::RankStats> own_;
  std::optional<monitoring::SlowStep>
      slowest_;  // its number is counted from the newest: 0, -1, ...
};

}  // namespace dtrain::train

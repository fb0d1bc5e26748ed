#pragma once

// What the ranks have measured of their steps and of their machines, gathered to rank 0 at logging
// steps and once at the end of the warm-up. The first steps of a process are left out, because they
// allocate memory and start threads, and of very long runs the newest steps are kept. Borrows the
// communicator. Thread-safety: none; the training thread owns it.

#include <cstdint>
#include <optional>
#include <vector>

#include "dist/communicator.h"
#include "measure/step_times.h"
#include "measure/windows.h"

namespace dtrain::measure {

class RunMeasurements {
 public:
  static constexpr size_t kWarmUpSteps = 5;

  explicit RunMeasurements(dist::Communicator& host);

  // The steps that this rank has ended since the last call; every rank has ended the same.
  // `resources`: over the same time, or, if not `of_steps_alone`, also over work after them: then a
  // window is kept only if it is the first. This is collective.
  void gather(const Steps& own, RankSample resources, bool of_steps_alone = true);

  // One entry per rank, over the same steps. Rank 0 knows those of all ranks, other ranks nothing.
  const std::vector<Steps>& steps() const { return steps_; }
  // The windows of those steps. Rank 0.
  const Windows& windows() const { return windows_; }
  // Over the last gathered steps, by rank; none where no step had ended. Of more than 64 ranks
  // those 8 that wait least for the others: they are the ones that the others wait for. Rank 0.
  const std::vector<RankMeans>& last() const { return last_; }
  const std::optional<RankMeans>& own() const { return own_; }  // on every rank, also in warm-up
  // The step of the last gathered ones that took longest: for its slowest rank, without the wait
  // for the others, and for the network. `newest`: the number of the last of them. None where no
  // step had ended. Rank 0.
  std::optional<SlowStep> slowest(int64_t newest) const;

 private:
  void keep(const Steps& all, size_t count);
  void drop_old_windows();

  dist::Communicator& host_;
  size_t most_;      // steps that are kept
  size_t left_out_;  // warm-up steps that are still to come
  std::vector<Steps> steps_;
  Windows windows_;
  std::vector<RankMeans> last_;
  std::optional<RankMeans> own_;
  std::optional<SlowStep> slowest_;  // its number is counted from the newest: 0, -1, ...
};

}  // namespace dtrain::measure

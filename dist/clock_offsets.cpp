#include "dist/clock_offsets.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "dist/object_collectives.h"

namespace dtrain::dist {
namespace {

constexpr size_t kTrials = 15;

}  // namespace

ClockOffset offset_of(std::span<const BarrierTimes> rank0, std::span<const BarrierTimes> other) {
  DTRAIN_CHECK(!rank0.empty() && rank0.size() == other.size(), rank0.size(), " and ", other.size(),
               " barriers");
  double least = other[0].entered - rank0[0].left, most = other[0].left - rank0[0].entered;
  for (size_t trial = 1; trial < rank0.size(); ++trial) {
    least = std::max(least, other[trial].entered - rank0[trial].left);
    most = std::min(most, other[trial].left - rank0[trial].entered);
  }
  // A clock that was set meanwhile makes the bounds contradict each other: by so much nothing
  // is known.
  return {(least + most) / 2, std::abs(most - least) / 2};
}

std::vector<ClockOffset> clock_offsets(Communicator& host, const std::function<double()>& now) {
  std::vector<BarrierTimes> mine(kTrials);
  for (BarrierTimes& trial : mine) {
    trial.entered = now();
    host.barrier();
    trial.left = now();
  }
  const std::vector<BarrierTimes> all = all_gather_values(host, mine);
  const std::span<const BarrierTimes> times(all);
  std::vector<ClockOffset> offsets(1);  // rank 0's own
  for (size_t rank = 1; rank < static_cast<size_t>(host.size()); ++rank) {
    offsets.push_back(offset_of(times.first(kTrials), times.subspan(rank * kTrials, kTrials)));
  }
  return offsets;
}

}  // namespace dtrain::dist

#include "doctor/clock_offsets.h"

#include <algorithm>

#include "core/check.h"
#include "dist/object_collectives.h"

namespace dtrain::doctor {
namespace {

constexpr int kTrials = 9;

}  // namespace

ClockOffset offset_of(std::span<const double> differences) {
  DTRAIN_CHECK(!differences.empty());
  std::vector<double> sorted(differences.begin(), differences.end());
  std::sort(sorted.begin(), sorted.end());
  // The middle half: a trial in which one of the two had to wait for a core is an outlier.
  const size_t quarter = sorted.size() / 4;
  return {sorted[sorted.size() / 2], sorted[sorted.size() - 1 - quarter] - sorted[quarter]};
}

std::vector<ClockOffset> clock_offsets(dist::Communicator& host, const Clock& clock) {
  std::vector<double> mine;
  for (int trial = 0; trial < kTrials; ++trial) {
    host.barrier();
    mine.push_back(unix_seconds(clock));
  }
  const std::vector<double> all = dist::all_gather_values(host, mine);
  std::vector<ClockOffset> offsets;
  for (size_t rank = 0; rank < static_cast<size_t>(host.size()); ++rank) {
    std::vector<double> differences;
    for (size_t trial = 0; trial < kTrials; ++trial) differences.push_back(all[rank * kTrials + trial] - all[trial]);
    offsets.push_back(offset_of(differences));
  }
  return offsets;
}

}  // namespace dtrain::doctor

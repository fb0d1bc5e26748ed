#include "measure/run_measurements.h"

#include <algorithm>

#include "core/check.h"
#include "dist/object_collectives.h"

namespace dtrain::measure {
namespace {

// What a verdict looks at, so that it takes milliseconds at any number of ranks.
constexpr size_t kMostValues = 20000, kMostSteps = 500, kFewestSteps = 40;

StepTimes mean_of(const StepTimes* begin, size_t count) {
  StepTimes mean;
  for (size_t i = 0; i < count; ++i) mean += begin[i];
  mean /= static_cast<double>(count);
  return mean;
}

// Those that the others wait for.
void keep_slowest(std::vector<RankMeans>& ranks) {
  constexpr size_t kAll = 64, kSlowest = 8;
  if (ranks.size() <= kAll) return;
  std::partial_sort(ranks.begin(), ranks.begin() + kSlowest, ranks.end(),
                    [](const auto& a, const auto& b) {
                      return a.times.of(Phase::kAllReduceWait) < b.times.of(Phase::kAllReduceWait);
                    });
  ranks.resize(kSlowest);
}

double without_wait(const StepTimes& times) { return times.wall - times.of(Phase::kAllReduceWait); }

// `all`: `count` steps of each rank. The rank that waits least for the others waits for the
// network alone.
SlowStep slowest_of(const Steps& all, size_t count) {
  SlowStep slowest;
  double longest = -1;
  for (size_t i = 0; i < count; ++i) {
    size_t late = 0;
    double network = all[i].of(Phase::kAllReduceWait);
    for (size_t rank = 1; rank * count < all.size(); ++rank) {
      const StepTimes& times = all[rank * count + i];
      if (without_wait(times) > without_wait(all[late * count + i])) late = rank;
      network = std::min(network, times.of(Phase::kAllReduceWait));
    }
    const StepTimes& times = all[late * count + i];
    if (without_wait(times) + network <= longest) continue;
    longest = without_wait(times) + network;
    slowest = {.step = static_cast<int64_t>(i) - static_cast<int64_t>(count - 1),
               .rank = static_cast<int>(late),
               .times = times};
  }
  return slowest;
}

}  // namespace

RunMeasurements::RunMeasurements(dist::Communicator& host)
    : host_(host),
      most_(std::clamp(kMostValues / static_cast<size_t>(host.size()), kFewestSteps, kMostSteps)),
      left_out_(kWarmUpSteps) {
  if (host.rank() == 0) steps_.resize(static_cast<size_t>(host.size()));
}

void RunMeasurements::gather(const Steps& own, RankSample resources, bool of_steps_alone) {
  const size_t warm_up = std::min(left_out_, own.size());
  left_out_ -= warm_up;
  const size_t begin = std::max(warm_up, own.size() - std::min(own.size(), most_));
  // Of very many steps the clock keeps the newest alone, and the resources are of all of them.
  resources.steps = std::max(static_cast<double>(own.size()), resources.steps);
  const auto newest = own.begin() + static_cast<std::ptrdiff_t>(begin);
  const Steps all = dist::all_gather_values(host_, Steps(newest, own.end()));
  const std::vector<RankSample> samples = dist::all_gather_object(host_, resources);
  const auto ranks = static_cast<size_t>(host_.size());
  DTRAIN_CHECK(all.size() % ranks == 0, all.size(), " steps of ", ranks, " ranks");
  last_.clear();
  own_.reset();
  slowest_.reset();
  if (!own.empty()) {
    const size_t first = begin < own.size() ? begin : 0;  // where all are warm-up, those
    own_ = {.rank = host_.rank(),
            .times = mean_of(own.data() + first, own.size() - first),
            .values = measure::per_step(resources)};
  }
  if (host_.rank() != 0 || all.empty()) return;
  const size_t count = all.size() / ranks;
  keep(all, count);
  slowest_ = slowest_of(all, count);
  for (size_t rank = 0; rank < ranks; ++rank) {
    last_.push_back({.rank = static_cast<int>(rank),
                     .times = mean_of(all.data() + rank * count, count),
                     .values = measure::per_step(samples[rank])});
  }
  keep_slowest(last_);
  // Of a window in which the warm-up ends, the machine's part is not known. One with more than
  // steps in it is better than none, as where a run that seldom logs is stopped.
  if (warm_up > 0 || (!of_steps_alone && !windows_.empty())) return;
  windows_.push_back({samples});
  drop_old_windows();
}

void RunMeasurements::drop_old_windows() {
  double kept = 0;
  for (const MeasuredWindow& window : windows_) kept += window.steps();
  while (windows_.size() > 1 && kept > static_cast<double>(most_)) {
    MeasuredWindow oldest = std::move(windows_.front());
    windows_.pop_front();
    kept -= oldest.steps();
    windows_.front().earlier = std::move(oldest.earlier);
    windows_.front().earlier.resize(oldest.ranks.size());
    for (size_t rank = 0; rank < oldest.ranks.size(); ++rank)
      windows_.front().earlier[rank].add(oldest.ranks[rank]);
  }
}

std::optional<SlowStep> RunMeasurements::slowest(int64_t newest) const {
  std::optional<SlowStep> slowest = slowest_;
  if (slowest) slowest->step += newest;
  return slowest;
}

void RunMeasurements::keep(const Steps& all, size_t count) {
  for (size_t rank = 0; rank < steps_.size(); ++rank) {
    const StepTimes* first = all.data() + rank * count;
    Steps& steps = steps_[rank];
    steps.insert(steps.end(), first, first + count);
    if (steps.size() > most_)
      steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(most_));
  }
}

}  // namespace dtrain::measure

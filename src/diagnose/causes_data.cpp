// Batches that are not ready: which stage of the readers takes the time, and how many readers would keep up.

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;
using monitoring::StepTimes;

// Readers whose time is mostly the processor's cannot be more than the cores; those that wait for a disk can.
constexpr int kMostReaders = 32;
constexpr double kBusyShare = 0.6;  // of their time: below it, the readers could have read ahead more

Cause slowest_stage(const LoaderUse& loader) {
  const double most = std::max({loader.read, loader.decode, loader.augment});
  return most == loader.augment ? Cause::kAugment : most == loader.decode ? Cause::kDecode : Cause::kDisk;
}

// What a rank would wait for data in a step, if `threads` readers shared the work that it measured.
class ReaderModel {
 public:
  explicit ReaderModel(const RankEvidence& rank)
      : loader_(rank.loader),
        waits_(mean_of(rank.steps, Phase::kDataWait)),
        without_wait_(mean_wall(rank.steps) - waits_),
        // All threads of the rank together cannot run faster than its cores.
        by_cores_(std::isfinite(rank.cores.cpu) && rank.cores.cores > 0 ? rank.cores.cpu / rank.cores.cores : 0) {}

  double share_left(int threads) const {
    if (waits_ <= 0) return 1;
    const double period = std::max(loader_.service() / threads, by_cores_);
    return std::clamp((period - without_wait_) / waits_, 0.0, 1.0);
  }
  bool readers_rest() const { return loader_.service() < kBusyShare * loader_.threads * (without_wait_ + waits_); }

  // The fewest readers after which more of them no longer help.
  int enough() const {
    int threads = loader_.threads;
    while (threads * 2 <= kMostReaders && share_left(threads * 2) < share_left(threads) - 0.01) threads *= 2;
    return threads;
  }

 private:
  const LoaderUse& loader_;
  double waits_, without_wait_, by_cores_;
};

Change waits_times(double share) {
  return [share](size_t, size_t, StepTimes& s) { s.phases[static_cast<size_t>(Phase::kDataWait)] *= share; };
}

}  // namespace

std::vector<Finding> data_causes(const RunEvidence& run) {
  if (run.ranks.empty()) return {};
  const auto worst = std::max_element(run.ranks.begin(), run.ranks.end(), [](const auto& a, const auto& b) {
    return mean_of(a.steps, Phase::kDataWait) < mean_of(b.steps, Phase::kDataWait);
  });
  const double waits = mean_of(worst->steps, Phase::kDataWait);
  if (waits <= 0) return {};
  Finding found;
  found.cause = slowest_stage(worst->loader);
  found.rank = only_rank(run, Phase::kDataWait);
  found.evidence = str(of_step(waits, mean_wall(worst->steps)), " waiting");
  const ReaderModel model(*worst);
  const int enough = model.enough();
  const std::vector<Steps> steps = run.steps();
  if (enough > worst->loader.threads) {
    found.gain = gain_of(steps, waits_times(model.share_left(enough)));
    found.setting = str("--data.workers ", enough);
  } else {
    found.gain = gain_of(steps, waits_times(0));
    found.otherwise = model.readers_rest()          ? "if batches came evenly (--data.prefetch)"
                      : found.cause == Cause::kDisk ? "with a faster disk"
                      : found.cause == Cause::kAugment && run.settings.augments_hue
                          ? "with a cheaper augmentation (hue costs most: --augment.hue 0)"
                      : run.settings.images ? "with more cores, or smaller pictures (convert --size)"
                                            : "with more cores";
  }
  return {found};
}

}  // namespace dtrain::diagnose

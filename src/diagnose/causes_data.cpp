// Batches that are not ready: which stage of the readers takes the time, and how many readers would
// keep up. Readers that are in each other's way (one disk, one memory, one core) take longer for a
// sample the more of them are at work: then fewer of them may read more.

#include <algorithm>
#include <cmath>
#include <utility>

#include "diagnose/find_causes.h"
#include "diagnose/means.h"
#include "text/strings.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;

// Readers whose time is mostly the processor's cannot be more than the cores; those that wait for a
// disk can.
constexpr int kMostReaders = 32;
// Of their time: below it, the readers could have read ahead more
constexpr double kBusyShare = 0.6;

Cause slowest_stage(const Values& values) {
  const double read = values.or_zero(Quantity::kReadSeconds),
               decode = values.or_zero(Quantity::kDecodeSeconds);
  if (values.or_zero(Quantity::kAugmentSeconds) > std::max(read, decode)) return Cause::kAugment;
  return decode > read ? Cause::kDecode : Cause::kDisk;
}

// What a rank would wait for data in a step, if `threads` readers shared the work that it measured.
class ReaderModel {
 public:
  explicit ReaderModel(const RankEvidence& rank)
      : readers_(rank.readers()),
        service_(rank.service()),
        // With all of them a sample takes this many times as long as with half of them.
        longer_(rank.values[Quantity::kManySampleSeconds] /
                rank.values[Quantity::kFewSampleSeconds]),
        waits_(mean_of(rank.steps, Phase::kDataWait)),
        without_wait_(mean_wall(rank.steps) - waits_),
        // All threads of the rank together cannot run faster than its cores.
        by_cores_(rank.values.knows(Quantity::kCpu) && rank.values[Quantity::kCores] > 0
                      ? rank.values[Quantity::kCpu] / rank.values[Quantity::kCores]
                      : 0) {}

  double share_left(int threads) const {
    if (waits_ <= 0) return 1;
    return std::clamp((period(threads) - without_wait_) / waits_, 0.0, 1.0);
  }
  // With how many readers a sample takes longer; "" where they are not in each other's way.
  std::string crowding_text() const {
    if (crowding() <= 0) return "";
    return str(", a sample takes ", fixed(longer_, 1),
               " times as long with all readers at work as with half of them");
  }
  bool readers_rest() const { return service_ < kBusyShare * readers_ * (without_wait_ + waits_); }

  // The number of readers that keeps up best, found by doubling or halving it: the fewest after
  // which more of them no longer help. As many as there are, unless more of them end a good part of
  // the waits, or where they have time to rest: then they are fast enough in the mean, and batches
  // come unevenly.
  int enough() const {
    constexpr double kWorthIt = 0.25;
    const int threads = best();
    if (threads < readers_) return readers_rest() ? readers_ : threads;
    return share_left(readers_) - share_left(threads) < kWorthIt ? readers_ : threads;
  }

 private:
  int best() const {
    int threads = readers_;
    while (threads * 2 <= kMostReaders && share_left(threads * 2) < share_left(threads) - 0.01)
      threads *= 2;
    if (threads != readers_) return threads;
    while (threads > 1 && period(threads / 2) < 0.97 * period(threads)) threads /= 2;
    return threads;
  }
  // A sample takes (n / m)^crowding times as long with n readers at work as with m of them. 0: they
  // are not in each other's way. 1: they share one disk, and no number of them is faster.
  double crowding() const {
    constexpr double kNoise = 0.07, kShared = 0.75, kMoreThanShared = 1.4, kMost = 2;
    if (readers_ < 2) return 0;
    const double readers = static_cast<double>(readers_) / few_readers(readers_);
    const double power = std::log(longer_) / std::log(readers);
    if (power > kShared && power < kMoreThanShared) return 1;
    return power > kNoise ? std::min(power, kMost) : 0;  // NaN: not measured
  }
  // Seconds of a step whose batch alone decides
  double period(int threads) const {
    const double longer = std::pow(static_cast<double>(threads) / readers_, crowding());
    return std::max(longer * service_ / threads, by_cores_);
  }

  int readers_;
  double service_, longer_;
  double waits_, without_wait_, by_cores_;
};

// What the kernel says of the disk; "" where that is nothing much.
std::string disk_text(const RunEvidence& run, const RankEvidence& rank) {
  const HostEvidence& host = host_of(run, rank);
  const double in_wait = host.values[Quantity::kHostIoWait] /
                         (host.values[Quantity::kHostCores] * mean_wall(rank.steps));
  std::string text;
  const double faults = rank.values[Quantity::kMajorFaults];
  if (faults >= 1) text += str(", ", fixed(faults, 0), " major faults per step");
  if (in_wait >= 0.01) text += str(", ", percent(in_wait), " of the time in I/O wait");
  return text;
}

}  // namespace

void add_data_causes(const RunEvidence& run, Findings& all) {
  const RankEvidence* worst = &run.ranks[worst_rank(run, Phase::kDataWait)];
  const double waits = mean_of(worst->steps, Phase::kDataWait);
  if (waits <= 0) return;
  Finding found;
  found.cause = slowest_stage(worst->values);
  found.rank = only_rank_with_slow_readers(run);
  found.evidence = str(of_step(waits, mean_wall(worst->steps)), " waiting");
  if (run.cached_step > 0) {
    found.evidence += str(", ", fixed(1e3 * run.cached_step, 1), " ms with batches from memory");
  }
  if (found.cause == Cause::kDisk) found.evidence += disk_text(run, *worst);
  const double stays = share_beyond_headroom(run, worst->steps);
  const ReaderModel model(*worst);
  const int enough = model.enough();
  found.evidence += model.crowding_text();
  if (enough != worst->readers()) {
    if (enough < worst->readers()) found.cause = Cause::kReaders;
    found.without =
        WhatIf{.change = times(Phase::kDataWait, std::max(stays, model.share_left(enough)))};
    found.setting = str("--data.workers ", enough);
  } else {
    found.without = WhatIf{.change = times(Phase::kDataWait, stays)};
    found.otherwise = model.readers_rest()          ? "if batches came evenly (--data.prefetch)"
                      : found.cause == Cause::kDisk ? "with a faster disk"
                      : found.cause == Cause::kDecode && run.settings.verifies
                          ? "without checksums (--data.verify false)"
                      : found.cause == Cause::kAugment && run.settings.augments_hue
                          ? "with a cheaper augmentation (hue costs most: --augment.hue 0)"
                      : run.settings.images
                          ? "with more cores, or smaller pictures (convert --size)"
                          : "with more cores";
  }
  all.push_back(std::move(found));
}

}  // namespace dtrain::diagnose

// Gradients that all ranks wait for, against what the network was measured to cost when nobody is late.

#include <algorithm>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/communication.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

// On the CPU messages travel during backward only if a core is free for them.
bool can_overlap(const RunEvidence& run) {
  return run.settings.gpu || std::all_of(run.ranks.begin(), run.ranks.end(), [](const RankEvidence& rank) {
           return rank.cores.cores > rank.cores.compute_threads;
         });
}

}  // namespace

std::vector<Finding> network_causes(const RunEvidence& run) {
  const std::vector<Steps> ranks = run.steps();
  if (ranks.size() < 2) return {};
  const Communication split = communication_of(run);
  if (!(split.network() > 0)) return {};
  const NetworkUse& net = run.network;
  const double step = mean_wall(ranks[0]);
  std::vector<Finding> found(1);
  found[0].cause = net.known() && split.transfer > split.latency ? Cause::kBandwidth : Cause::kLatency;
  found[0].evidence = str("all ranks wait ", of_step(split.network(), step), " for gradients");
  if (net.known()) {
    const double cost = net.latency * net.messages + net.seconds_per_byte * net.bytes;
    found[0].evidence +=
        str(", ", fixed(net.messages, 0), " messages cost ", fixed(1e3 * cost, 1), " ms when nobody is late");
  }
  // Of twice as many micro-steps each pays half of it.
  found[0].without = Replay{.change = {}, .network = 0.5};
  found[0].setting = str("--accumulate ", 2 * run.settings.accumulate);
  if (split.overlap > 0 && can_overlap(run)) {
    found.push_back(
        {.cause = Cause::kOverlap,
         .evidence = str(of_step(split.overlap, step), " waiting for gradients that could be sent during backward"),
         .setting = str("--dist.bucket_mb ", fixed(split.best_mebibytes, 0)),
         .without = Replay{.change = {}, .network = 1 - split.overlap / split.network()}});
  }
  return found;
}

}  // namespace dtrain::diagnose

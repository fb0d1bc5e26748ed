// What is done once per step: gradients that all ranks wait for, against what the network was
// measured to cost when no rank is late, and the optimizer.

#include <algorithm>
#include <utility>

#include "diagnose/communication.h"
#include "diagnose/find_causes.h"
#include "diagnose/means.h"
#include "text/strings.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;

// On the CPU messages travel during backward only if a core is free for them.
bool can_overlap(const RunEvidence& run) {
  return run.settings.gpu || std::ranges::all_of(run.ranks, [](const RankEvidence& rank) {
           return rank.values[Quantity::kCores] > rank.compute_threads();
         });
}

std::string network_text(const RunEvidence& run, const Communication& split, double step) {
  const NetworkUse& net = run.network;
  std::string text = str("all ranks wait ", of_step(split.network(), step), " for gradients");
  // A probe that met a busy machine says nothing about messages on an idle one.
  const double cost = net.latency * net.messages + net.seconds_per_byte * net.bytes;
  if (net.known() && cost <= 1.1 * split.network()) {
    text +=
        str(", ", fixed(net.messages, 0), net.messages > 1 ? " messages cost " : " message costs ",
            fixed(1e3 * cost, 1), " ms when no rank is late");
  }
  if (split.late > 0.01 * step)
    text += str(", ", fixed(1e3 * split.late, 1), " ms more for the last rank");
  return text;
}

Cause cause_of(const NetworkUse& network, const Communication& split) {
  if (!network.known() || split.other > split.latency + split.transfer) return Cause::kNetwork;
  return split.transfer > split.latency ? Cause::kBandwidth : Cause::kLatency;
}

// Half of the bytes: where they travel between hosts or GPUs, and take most of the waiting. In the
// memory of one host it takes as long to round them.
bool halves_with_bf16(const RunEvidence& run, const Communication& split) {
  const bool travels = run.hosts.size() > 1 || run.settings.gpu;
  return travels && !run.settings.narrow_wire &&
         cause_of(run.network, split) == Cause::kBandwidth &&
         split.transfer > 0.5 * split.network();
}

// What is done once per step: of twice as many micro-steps, each pays half of it. It is promised
// once, by the name of the larger part.
void add_once_per_step(const RunEvidence& run, const Communication& split, Findings& found) {
  const Steps& steps = run.ranks[worst_rank(run, Phase::kOptimizer)].steps;
  const double optimizer = mean_of(steps, Phase::kOptimizer), step = mean_wall(steps);
  if (!(optimizer + split.network() > 0)) return;
  const std::string in_optimizer = str(of_step(optimizer, step), " in the optimizer");
  const RunSettings& settings = run.settings;
  Finding finding{.setting = settings.global_batch > 0
                                 ? str("--train.global_batch ", 2 * settings.global_batch)
                                 : str("--accumulate ", 2 * settings.accumulate),
                  .otherwise = kLargerGlobalBatch,
                  .without = WhatIf{.change = times(Phase::kOptimizer, 0.5), .network = 0.5}};
  if (optimizer > split.network()) {
    finding.cause = Cause::kOptimizer;
    finding.evidence = in_optimizer;
    if (split.network() > 0)
      finding.evidence += str(", ", fixed(1e3 * split.network(), 1), " ms for gradients");
  } else {
    finding.cause = cause_of(run.network, split);
    finding.evidence = str(network_text(run, split, step), ", ", in_optimizer);
    if (halves_with_bf16(run, split)) {
      finding.setting = "--dist.wire bf16";
      finding.otherwise = "(gradients are rounded to bfloat16 between ranks)";
      finding.without = WhatIf{.change = {}, .network = 1 - 0.5 * split.transfer / split.network()};
    }
  }
  found.push_back(std::move(finding));
}

}  // namespace

void add_network_causes(const RunEvidence& run, Findings& found) {
  const Communication split = communication_of(run);
  add_once_per_step(run, split, found);
  if (split.overlap > 0 && can_overlap(run)) {
    found.push_back(
        {.cause = Cause::kOverlap,
         .evidence = str(of_step(split.overlap, mean_wall(run.ranks[0].steps)),
                         " waiting for gradients that could be sent during backward"),
         .setting = str("--dist.bucket_mb ", fixed(split.best_mebibytes, 0)),
         .without = WhatIf{.change = {}, .network = 1 - split.overlap / split.network()}});
  }
}

}  // namespace dtrain::diagnose

// Gradients that all ranks wait for, against what the network was measured to cost when nobody is late.

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;
using monitoring::StepTimes;

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value / static_cast<double>(values.size());
  return sum;
}

// Twice as many micro-steps per optimizer step: network and optimizer cost half as much per micro-step.
Gain with_twice_the_micro_steps(const std::vector<Steps>& ranks) {
  const auto half_of_the_optimizer = [](size_t, size_t, StepTimes& s) {
    s.phases[static_cast<size_t>(Phase::kOptimizer)] *= 0.5;
  };
  return gain_of(ranks, half_of_the_optimizer, /*network=*/0.5);
}

}  // namespace

std::vector<Finding> network_causes(const RunEvidence& run) {
  const std::vector<Steps> ranks = run.steps();
  if (ranks.size() < 2) return {};
  const std::vector<double> waits = network_seconds(cycles_of(ranks));
  const double wait = mean(waits);
  if (!(wait > 0)) return {};
  const NetworkUse& net = run.network;
  const double latency = net.latency * net.messages, transfer = net.seconds_per_byte * net.bytes;
  const bool known = std::isfinite(latency) && std::isfinite(transfer);
  Finding found;
  found.cause = known && transfer > latency ? Cause::kBandwidth : Cause::kLatency;
  found.evidence = str("all ranks wait ", of_step(wait, mean_wall(ranks[0])), " for gradients");
  if (known) {
    found.evidence += str(", ", fixed(net.messages, 0), " messages cost ", fixed(1e3 * (latency + transfer), 1),
                          " ms when nobody is late");
  }
  found.gain = with_twice_the_micro_steps(ranks);
  found.setting = str("--accumulate ", 2 * run.settings.accumulate);
  return {found};
}

}  // namespace dtrain::diagnose

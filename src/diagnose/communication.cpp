#include "diagnose/communication.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "diagnose/what_if.h"

namespace dtrain::diagnose {
namespace {

// Of a message that travels from `begin` to `end`, the seconds after `from`.
double after(double from, double begin, double end) {
  return std::max(0.0, end - std::max(begin, from));
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value / static_cast<double>(values.size());
  return sum;
}

// What backward cannot hide of the plan that hides most. A plan that hides hardly more than the one
// that runs is none.
struct BestPlan {
  Exposed exposed;
  double mebibytes = 0;  // 0: the one that runs
};
BestPlan best_plan(const NetworkUse& net, const Readiness& ready) {
  BestPlan best{.exposed = exposed(net.plan.bytes, net, ready)};
  const double now = best.exposed.total();
  for (const BucketPlan& other : net.others) {
    const Exposed with = exposed(other.bytes, net, ready);
    if (with.total() < std::min(0.9 * now, best.exposed.total())) best = {with, other.mebibytes};
  }
  return best;
}

}  // namespace

double Readiness::at(double bytes_ready) const {
  double from_bytes = 0, from_seconds = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes_ready <= bytes[i]) {
      const double part =
          bytes[i] > from_bytes ? (bytes_ready - from_bytes) / (bytes[i] - from_bytes) : 1;
      return from_seconds + part * (seconds[i] - from_seconds);
    }
    from_bytes = bytes[i];
    from_seconds = seconds[i];
  }
  return from_seconds;
}

Readiness readiness_of(const RunEvidence& run) {
  std::array<double, 3> sum{};
  double steps = 0;
  for (const RankEvidence& rank : run.ranks) {
    for (const measure::StepTimes& step : rank.steps) {
      if (!(step.buckets[2] > 0)) continue;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += step.buckets[i];
      ++steps;
    }
  }
  const std::vector<double>& buckets = run.network.plan.bytes;
  if (steps == 0 || buckets.empty()) return {};
  // First, middle and last, as dist/backward_times.h counts them.
  const std::array<size_t, 3> which = {0, buckets.size() / 2, buckets.size() - 1};
  Readiness ready;
  double bytes = 0;
  for (size_t bucket = 0, next = 0; bucket < buckets.size(); ++bucket) {
    bytes += buckets[bucket];
    for (; next < which.size() && which[next] == bucket; ++next) {
      ready.bytes.push_back(bytes);
      ready.seconds.push_back(
          std::max(sum[next] / steps, ready.seconds.empty() ? 0 : ready.seconds.back()));
    }
  }
  return ready;
}

Exposed exposed(std::span<const double> bucket_bytes, const NetworkUse& net,
                const Readiness& ready) {
  const double end_of_backward = ready.known() ? ready.seconds.back() : 0;
  Exposed sum;
  double bytes = 0, free = 0;
  for (const double bucket : bucket_bytes) {
    bytes += bucket;
    const double begin = std::max(free, ready.at(bytes)), sends = begin + net.latency;
    free = sends + bucket * net.seconds_per_byte;
    sum.latency += after(end_of_backward, begin, sends);
    sum.transfer += after(end_of_backward, sends, free);
  }
  return sum;
}

Communication communication_of(const RunEvidence& run) {
  const std::vector<std::vector<Cycle>> cycles = cycles_of(run.steps());
  const std::vector<double> waits = network_seconds(cycles);
  Communication split;
  if (run.ranks.size() < 2 || waits.empty()) return split;
  const double network = mean(waits);
  for (const std::vector<Cycle>& rank : cycles) {
    double sum = 0;
    for (const Cycle& cycle : rank) sum += cycle.wait / static_cast<double>(rank.size());
    split.late += (sum - network) / static_cast<double>(cycles.size());
  }
  const NetworkUse& net = run.network;
  double left = network;
  if (net.known()) {
    const Readiness ready = readiness_of(run);
    // Nothing is known of the overlap
    Exposed now{net.latency * net.messages, net.seconds_per_byte * net.bytes};
    Exposed least = now;
    if (ready.known()) {
      const BestPlan best = best_plan(net, ready);
      now = exposed(net.plan.bytes, net, ready);
      least = best.exposed;
      split.best_mebibytes = best.mebibytes;
    }
    // A probe that met a busy machine says more than was waited: then its parts count, not
    // their sum.
    const double part = now.total() > 0 ? std::min(1.0, network / now.total()) : 0;
    split.overlap = part * std::max(0.0, now.total() - least.total());
    split.latency = part * least.latency;
    split.transfer = part * least.transfer;
    left -= split.overlap + split.latency + split.transfer;
  }
  split.other = std::max(0.0, left);
  return split;
}

}  // namespace dtrain::diagnose

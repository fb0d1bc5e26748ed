#include "plan/forecast.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace dtrain::plan {
namespace {

double line(double low, double high, double share) {
  return std::max(0.0, low + (high - low) * share);
}

int64_t line(int64_t low, int64_t high, double share) {
  return std::llround(line(static_cast<double>(low), static_cast<double>(high), share));
}

// The point at `share` of the way from `a` to `b`; beyond them below 0 and above 1.
MeasuredBatch between(const MeasuredBatch& a, const MeasuredBatch& b, int64_t samples,
                      double share) {
  MeasuredBatch at = a;  // weights, gradients, moments and average do not depend on the samples
  at.samples = samples;
  at.data = line(a.data, b.data, share);
  at.h2d = line(a.h2d, b.h2d, share);
  at.forward = line(a.forward, b.forward, share);
  at.backward = line(a.backward, b.backward, share);
  at.load = line(a.load, b.load, share);
  at.deviation = line(a.deviation, b.deviation, share);
  at.optimizer = line(a.optimizer, b.optimizer, std::clamp(share, 0.0, 1.0));
  at.other = line(a.other, b.other, std::clamp(share, 0.0, 1.0));
  at.memory.activations = line(a.memory.activations, b.memory.activations, share);
  at.memory.batch = line(a.memory.batch, b.memory.batch, share);
  return at;
}

// A line through two sizes that were measured in noise can have any slope. What it says beyond them
// is kept between a time that does not depend on the samples and one in proportion to them.
double bounded(double value, double at_end, double ratio) {
  return std::clamp(value, at_end * std::min(1.0, ratio), at_end * std::max(1.0, ratio));
}

MeasuredBatch bounded(MeasuredBatch at, const MeasuredBatch& end) {
  const double ratio = static_cast<double>(at.samples) / static_cast<double>(end.samples);
  at.h2d = bounded(at.h2d, end.h2d, ratio);
  at.forward = bounded(at.forward, end.forward, ratio);
  at.backward = bounded(at.backward, end.backward, ratio);
  at.load = bounded(at.load, end.load, ratio);
  // Slow readers may begin to keep larger batches waiting.
  const double unhidden = at.load - at.forward - at.backward;
  at.data = std::clamp(at.data, 0.0, std::max({0.0, unhidden, end.data * std::max(1.0, ratio)}));
  at.deviation = bounded(at.deviation, end.deviation, ratio);
  return at;
}

MeasuredBatch nothing_like(const MeasuredBatch& one) {
  MeasuredBatch zero{.optimizer = one.optimizer, .other = one.other, .memory = one.memory};
  zero.memory.activations = zero.memory.batch = 0;
  return zero;
}

void add(StepForecast& step, const MeasuredBatch& micro, double speed) {
  const double computing = (micro.forward + micro.backward) / speed;
  step.forward += micro.forward / speed;
  step.h2d += micro.h2d;
  // A faster device waits for a loader that was fast enough for this one.
  step.data += speed > 1 ? std::max(micro.data, micro.load - computing) : micro.data;
}

// NCCL's kernels take multiprocessors and memory bandwidth from backward. Calibrated on published
// runs of 16 GPUs (docs/planning.md), and the same for all others.
constexpr double kNcclContention = 0.25;

}  // namespace

double contention_of(Library library) {
  // CPU ranks have a communication thread beside backward; what it costs is in the steps that
  // several ranks measure.
  return library == Library::kNccl ? kNcclContention : 0;
}

bool was_measured(const MeasuredRun& run, int64_t samples) {
  return std::ranges::find(run.batches, samples, &MeasuredBatch::samples) != run.batches.end();
}

MeasuredBatch at_size(const MeasuredRun& run, int64_t samples) {
  DTRAIN_CHECK(!run.batches.empty(), "a run of which nothing was measured");
  const auto above = std::ranges::lower_bound(run.batches, samples, {}, &MeasuredBatch::samples);
  if (above != run.batches.end() && above->samples == samples) return *above;
  if (run.batches.size() == 1) {
    const MeasuredBatch& one = run.batches.front();
    return between(nothing_like(one), one, samples,
                   static_cast<double>(samples) / static_cast<double>(one.samples));
  }
  const auto high = std::clamp(above, run.batches.begin() + 1, run.batches.end() - 1);
  const MeasuredBatch &a = *(high - 1), &b = *high;
  const double share =
      static_cast<double>(samples - a.samples) / static_cast<double>(b.samples - a.samples);
  const MeasuredBatch at = between(a, b, samples, share);
  if (share < 0) return bounded(at, a);
  return share > 1 ? bounded(at, b) : at;
}

StepForecast forecast_step(const MeasuredRun& run, const Assumptions& assumptions, int64_t ranks,
                           std::span<const int64_t> micro_batches) {
  DTRAIN_CHECK(!micro_batches.empty() && ranks > 0 && assumptions.speed > 0, ranks, " ranks");
  const auto travel = [&](double bytes) {
    return all_reduce_seconds(assumptions.fabric, ranks, bytes);
  };
  double sums = 0;  // seconds for the sums of batch norm in one micro-step
  for (const double bytes : run.statistics) sums += travel(bytes);

  StepForecast step;
  double variance = 0, last_backward = 0;
  for (const int64_t samples : micro_batches) {
    const MeasuredBatch micro = at_size(run, samples);
    add(step, micro, assumptions.speed);
    variance += micro.deviation * micro.deviation;
    last_backward = micro.backward / assumptions.speed;
    step.backward += last_backward;
    step.statistics += sums;
    step.optimizer = micro.optimizer / assumptions.speed;
    step.other = micro.other / assumptions.speed;
  }
  std::vector<TimedBucket> buckets = run.buckets;
  if (!assumptions.overlaps) {
    for (TimedBucket& bucket : buckets) bucket.ready = 1;
  }
  // Gradients leave during the last micro-step alone.
  const Overlap last = overlap(buckets, last_backward, assumptions.contention, travel);
  step.backward += last.backward - last_backward;
  step.exposed = last.exposed;
  step.wire = last.wire;
  step.hidden = last.hidden();
  step.late = std::sqrt(variance) / assumptions.speed * expected_largest(ranks);
  return step;
}

double expected_largest(int64_t count) {
  if (count <= 1) return 0;
  // The mean of a distribution F is the integral of 1 - F above 0 less that of F below; here F is
  // that of the largest.
  constexpr double kEnd = 9, kStep = 1.0 / 256;
  const auto n = static_cast<double>(count);
  double sum = 0;
  for (double x = kStep / 2; x < kEnd; x += kStep) {
    const double above = 0.5 * std::erfc(x / std::sqrt(2.0));  // one value lies above x
    sum += -std::expm1(n * std::log1p(-above)) - std::pow(above, n);
  }
  return sum * kStep;
}

}  // namespace dtrain::plan

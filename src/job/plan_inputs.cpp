#include "job/plan_inputs.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "dist/comm_probe.h"
#include "layers/batch_norm.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

constexpr double kLinkSeconds = 1;

double mean_phase(const StepProbe& probe, measure::Phase phase) {
  double sum = 0, steps = 0;
  for (const train::MeasuredSteps& rank : probe.ranks) {
    sum += rank.phase_seconds[static_cast<size_t>(phase)];
    steps += static_cast<double>(rank.steps);
  }
  return sum / steps;
}

}  // namespace

plan::MeasuredBatch measured_batch(const StepProbe& probe, int threads) {
  using measure::Phase;
  const auto micro_steps = static_cast<double>(probe.accumulate),
             size = static_cast<double>(probe.batch_size);
  plan::MeasuredBatch batch{.samples = probe.batch_size,
                            .data = mean_phase(probe, Phase::kDataWait) / micro_steps,
                            .h2d = mean_phase(probe, Phase::kH2d) / micro_steps,
                            .forward = mean_phase(probe, Phase::kForward) / micro_steps,
                            .backward = mean_phase(probe, Phase::kBackward) / micro_steps,
                            .optimizer = mean_phase(probe, Phase::kOptimizer),
                            .step = probe.step_seconds(),
                            .memory = probe.memory};
  const auto ranks = static_cast<double>(probe.ranks.size());
  data::LoaderStats loader;
  double steps = 0, other = 0;
  for (const train::MeasuredSteps& rank : probe.ranks) {
    loader += rank.loader;
    steps += static_cast<double>(rank.steps);
    other += rank.other_seconds();
    batch.deviation += rank.own_deviation / std::sqrt(micro_steps) / ranks;
  }
  batch.other = other / steps;
  if (loader.samples > 0) {
    batch.load = loader.service_seconds() / static_cast<double>(loader.samples) * size /
                 std::max(1, threads);
  }
  return batch;
}

std::vector<double> statistics_bytes(const PreparedRun& run) {
  std::vector<double> bytes;
  if (!run.config.train.sync_batch_norm) return bytes;
  for (const auto& module : run.task->model().modules(/*include_self=*/false)) {
    const auto* norm = dynamic_cast<const layers::BatchNormImpl*>(module.get());
    if (norm == nullptr || norm->frozen()) continue;
    const auto channels = static_cast<double>(norm->running_mean.numel());
    bytes.push_back(8 * (1 + 2 * channels));  // count, sums, sums of squares
    bytes.push_back(8 * 2 * channels);        // sums over the gradients
  }
  return bytes;
}

std::vector<int64_t> thinned(std::span<const int64_t> sizes, size_t most) {
  if (sizes.size() <= most || most < 2) return {sizes.begin(), sizes.end()};
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < most; ++i) chosen.push_back(sizes[i * (sizes.size() - 1) / (most - 1)]);
  return chosen;
}

plan::MeasuredRun measure_run(const ConnectedRun& run, std::span<const int64_t> sizes,
                              const StepProbeOptions& options) {
  plan::MeasuredRun measured{
      .source = "here",
      .network = str(run.config.model.name),
      .precision = train::to_string(run.precision),
      .device = run.process.device.is_cpu() ? "cpu" : run.process.device.str(),
      .data = run.config.data.file,
      .ranks = run.process.world.size,
      .samples = run.batches.samples,
      .prefetch = run.config.data.prefetch,
      .micro_steps = 1,
      .statistics = statistics_bytes(run)};
  // All ranks have a whole micro-batch
  const int64_t most = std::max<int64_t>(1, measured.samples / measured.ranks);
  for (const int64_t size : sizes) {
    if (size > most && size != sizes.front()) continue;
    StepProbeOptions one = options;
    one.batch_size = std::min(size, most);
    one.accumulate = 1;
    const StepProbe probe = probe_step(run, one);
    if (!probe.measured()) {
      measured.too_large.emplace_back(one.batch_size, probe.out_of_memory);
      continue;
    }
    measured.batches.push_back(measured_batch(probe, run.loader_threads));
    if (!probe.buckets.empty()) measured.buckets.clear();
    for (const dist::BucketTime& bucket : probe.buckets) {
      measured.buckets.push_back({static_cast<double>(bucket.bytes), bucket.ready});
    }
  }
  if (measured.batches.empty()) {
    const auto& [size, missing] = measured.too_large.back();
    throw DeviceError(str("nothing could be measured here, a micro-batch of ", size, ": ", missing,
                          ". Measure the step where there is more memory (dtrain bench step --json "
                          "FILE), and plan from that (--measured FILE)"));
  }
  return measured;
}

std::optional<plan::Link> measure_link(const ConnectedRun& run) {
  const int ranks = run.process.world.size;
  if (ranks == 1) return std::nullopt;
  return plan::link_of_fit(
      dist::probe_all_reduce(run.connections->gradients(), run.process.device, kLinkSeconds),
      ranks);
}

}  // namespace dtrain::job

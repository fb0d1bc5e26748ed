// Steps and memory of a run, measured without what surrounds its steps. Part of step_runner.h.

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/clock.h"
#include "core/spread.h"
#include "device/tensor_memory.h"
#include "dist/object_collectives.h"
#include "train/step_agreement.h"
#include "train/step_runner.h"

namespace dtrain::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

// See MeasuredSteps::own_deviation. The first step began before the others were measured, and
// lasted until then.
double deviation_of(const std::vector<measure::StepTimes>& steps) {
  // Standard deviation in relation to the median distance
  constexpr double kOfNormalValues = 1.4826;
  std::vector<double> own, distances;
  for (size_t i = 1; i < steps.size(); ++i) {
    own.push_back(steps[i].wall - steps[i].of(measure::Phase::kAllReduceWait));
  }
  if (own.size() < 2) return 0;
  const double middle = median_of(own);
  for (const double seconds : own) distances.push_back(std::abs(seconds - middle));
  return kOfNormalValues * median_of(distances);
}

}  // namespace

void StepRunner::end_step(StepAgreement& boundary) {
  tracker_.wait_for_others();
  boundary.exchange({});
}

void StepRunner::measure_phase_of(int64_t epoch) {
  measured_epoch_ = epoch;
  enter_phase();
}

MeasuredSteps StepRunner::measure(int64_t steps, const std::function<void()>& issued) {
  PhaseClock& clock = tracker_.clock();
  clock.synchronize();
  clock.take_steps();
  const PhaseClock::Seconds phases = clock.totals();
  const data::LoaderStats loader = loader_.stats();
  const auto began = SteadyClock::now();
  MeasuredSteps measured{.steps = steps};
  StepAgreement boundary(context_.host);
  for (int64_t i = 0; i < steps; ++i) {
    if (!replay_)
      enter_phase();  // batches that are replayed are of the phase in which they were taken
    measured.samples += step(logs(position_.step + 1)).samples;
    if (issued && i + 1 == steps) issued();
    end_step(boundary);
  }
  tracker_.end_steps();
  clock.synchronize();
  measured.seconds = seconds_since(began);
  boundary.settle();
  for (size_t phase = 0; phase < phases.size(); ++phase) {
    measured.phase_seconds[phase] = clock.totals()[phase] - phases[phase];
  }
  measured.loader = loader_.stats() - loader;
  const std::vector<measure::StepTimes> times = clock.take_steps();
  for (const measure::StepTimes& step : times) measured.padded += step.padded;
  measured.own_deviation = deviation_of(times);
  return measured;
}

double StepRunner::step_at(double learning_rate) {
  StepAgreement boundary(context_.host);
  given_rate_ = learning_rate;
  enter_phase();
  const monitoring::StepStats stats = step(/*logging=*/true);
  end_step(boundary);
  boundary.settle();
  given_rate_.reset();
  return stats.loss;
}

std::vector<dist::BucketTime> StepRunner::time_buckets(int64_t steps) {
  std::vector<dist::BucketTime> buckets;
  std::vector<std::vector<double>> ready;  // one list per bucket, one value per timed step
  StepAgreement boundary(context_.host);
  const StepGraphs::Off no_graphs(graphs_);  // nothing inside of them has a time
  for (int64_t i = 0; i < steps; ++i) {
    enter_phase();
    phases_.reducer().time_buckets(true);
    step(logs(position_.step + 1));
    end_step(boundary);
    const std::vector<dist::BucketTime> timed = phases_.reducer().bucket_times();
    phases_.reducer().time_buckets(false);
    if (timed.empty()) continue;
    buckets = timed;
    ready.resize(timed.size());
    for (size_t b = 0; b < timed.size(); ++b) ready[b].push_back(timed[b].ready);
  }
  boundary.settle();
  for (size_t b = 0; b < buckets.size(); ++b) buckets[b].ready = median_of(ready[b]);
  return buckets;
}

// The micro-batch of the longest samples: any other one needs less memory.
std::unique_ptr<data::Loader> StepRunner::loader_of_largest_batch() const {
  const std::vector<int64_t> ids = data::largest_samples(context_.store, context_.splits.train,
                                                         largest_micro_batch(context_.batches));
  const auto count = static_cast<int64_t>(ids.size());
  data::LoaderOptions options = data::one_pass(count, count);
  options.skip_bad = context_.config.data.skips_bad_samples();
  options.device = context_.device;
  return std::make_unique<data::Loader>(context_.store, ids, context_.task.samples(), options,
                                        data::Shard{0, 1});
}

StepMemory StepRunner::measure_memory() {
  enter_phase();
  StepMemory memory;
  const bool any_size = context_.store.schema().input.variable();
  const std::unique_ptr<data::Loader> largest = any_size ? loader_of_largest_batch() : nullptr;
  // kept: what the step frees of it is not its own
  const data::Batch batch = (largest ? *largest : loader_).next();
  memory.batch = device::bytes_of(std::vector{batch.inputs, batch.targets});
  Role role = role_of(batch);
  role.last = false;  // nothing is sent
  write_state(batch);
  {
    const SharedStatistics::Alone alone(shared_statistics_);
    const StepGraphs::Off no_graphs(graphs_);
    micro_step(batch, role);  // makes what stays, which is no activation: workspaces of libraries
    const device::TensorMemory tensors;
    micro_step(batch, role);
    memory.activations = tensors.peak();
  }
  tracker_.leave();
  phases_.reducer().zero();
  loader_.seek(position_.step);
  memory.weights = device::bytes_of(context_.task.model().parameters()) +
                   device::bytes_of(context_.task.model().buffers()) + narrow_weights_.bytes();
  memory.gradients = phases_.reducer().memory_bytes();
  memory.moments = phases_.moment_bytes();
  memory.average = average_.bytes();
  return memory;
}

MeasuredSteps StepRunner::measure_headroom(double seconds) {
  // steps; what is kept of their batches
  constexpr int64_t kReplayed = 4, kReplayedBytes = int64_t{64} << 20;
  constexpr int64_t kFewest = 2, kMost = 100000;
  enter_phase();
  const auto put_back = keep_state();
  replay_.emplace(loader_, kReplayed, kReplayedBytes, context_.static_buffers);
  const auto began = SteadyClock::now();
  measure(graphs_.steps_before() + 1);  // makes what stays
  const MeasuredSteps few = measure(kFewest);
  const double step =
      dist::largest_of_ranks(context_.host, few.seconds / static_cast<double>(few.steps));
  const double left = dist::largest_of_ranks(context_.host, seconds - seconds_since(began));
  const MeasuredSteps measured =
      measure(std::clamp(static_cast<int64_t>(left / std::max(step, 1e-9)), kFewest, kMost));
  replay_.reset();
  put_back();
  tracker_.clock().forget_steps();
  return measured;
}

}  // namespace dtrain::train

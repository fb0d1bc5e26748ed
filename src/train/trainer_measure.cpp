// Steps and memory of a run, measured without what surrounds its steps. Part of trainer.h.

#include <cmath>

#include "core/spread.h"
#include "core/stopwatch.h"
#include "device/tensor_memory.h"
#include "train/trainer.h"

namespace dtrain::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

template <typename Tensors>
int64_t bytes_of(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

// See MeasuredSteps::own_deviation. The first step began before the others were measured, and lasted until then.
double deviation_of(const std::vector<monitoring::StepTimes>& steps) {
  constexpr double kOfNormalValues = 1.4826;  // standard deviation in relation to the median distance
  std::vector<double> own, distances;
  for (size_t i = 1; i < steps.size(); ++i) {
    own.push_back(steps[i].wall - steps[i].of(monitoring::Phase::kAllReduceWait));
  }
  if (own.size() < 2) return 0;
  const double middle = median_of(own);
  for (const double seconds : own) distances.push_back(std::abs(seconds - middle));
  return kOfNormalValues * median_of(distances);
}

}  // namespace

MeasuredSteps Trainer::measure(int64_t steps) {
  PhaseClock& clock = tracker_.clock();
  clock.synchronize();
  clock.take_steps();
  const PhaseClock::Seconds phases = clock.totals();
  const data::LoaderStats loader = loader_.stats();
  const auto began = SteadyClock::now();
  MeasuredSteps measured{.steps = steps};
  for (int64_t i = 0; i < steps; ++i) {
    enter_task_phase();
    measured.samples += step().samples;
    exchange_requests();  // every step of a run ends with it
  }
  tracker_.end_steps();
  clock.synchronize();
  measured.seconds = seconds_since(began);
  agreement_.settle();
  for (size_t phase = 0; phase < phases.size(); ++phase) {
    measured.phase_seconds[phase] = clock.totals()[phase] - phases[phase];
  }
  measured.loader = loader_.stats() - loader;
  measured.own_deviation = deviation_of(clock.take_steps());
  return measured;
}

<<<<<<< HEAD
double Trainer::step_at(double learning_rate) {
  given_rate_ = learning_rate;
  enter_task_phase();
  monitoring::StepStats stats = step();
  exchange_requests();
  agreement_.settle();
  given_rate_.reset();
  return stats.loss;
}

||||||| parent of c7f329b (Measure when each gradient bucket is full, and how steps vary)
=======
std::vector<dist::BucketTime> Trainer::time_buckets(int64_t steps) {
  std::vector<dist::BucketTime> buckets;
  std::vector<std::vector<double>> ready;  // by bucket, by step
  for (int64_t i = 0; i < steps; ++i) {
    enter_task_phase();
    phases_.reducer().time_buckets(true);
    step();
    exchange_requests();
    const std::vector<dist::BucketTime> timed = phases_.reducer().bucket_times();
    phases_.reducer().time_buckets(false);
    if (timed.empty()) continue;
    buckets = timed;
    ready.resize(timed.size());
    for (size_t b = 0; b < timed.size(); ++b) ready[b].push_back(timed[b].ready);
  }
  agreement_.settle();
  for (size_t b = 0; b < buckets.size(); ++b) buckets[b].ready = median_of(ready[b]);
  return buckets;
}

>>>>>>> c7f329b (Measure when each gradient bucket is full, and how steps vary)
StepMemory Trainer::measure_memory() {
  enter_task_phase();
  StepMemory memory;
  const data::Batch batch = loader_.next();  // kept: what the step frees of it is not its own
  memory.batch = bytes_of(std::vector{batch.inputs, batch.targets});
  phases_.reducer().arm(/*last_micro_step=*/false, shared_statistics_.runs(batch));
  {
    const device::TensorMemory tensors;
    forward_backward(batch,
                     loss_power_of_two(context_.task.planned_weight(batch.global_samples), context_.host.size()));
    memory.activations = tensors.peak();
  }
  tracker_.leave();
  phases_.reducer().zero();
  loader_.seek(step_);
  memory.weights = bytes_of(context_.task.model().parameters()) + bytes_of(context_.task.model().buffers());
  memory.gradients = phases_.reducer().bytes_per_step();
  memory.moments = phases_.optimizer().bytes();
  memory.average = average_.bytes();
  return memory;
}

}  // namespace dtrain::train

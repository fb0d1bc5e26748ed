// Steps and memory of a run, measured without what surrounds its steps. Part of trainer.h.

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

}  // namespace

MeasuredSteps Trainer::measure(int64_t steps) {
  PhaseClock& clock = tracker_.clock();
  clock.synchronize();
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
  return measured;
}

double Trainer::step_at(double learning_rate) {
  given_rate_ = learning_rate;
  enter_task_phase();
  monitoring::StepStats stats = step();
  exchange_requests();
  agreement_.settle();
  given_rate_.reset();
  return stats.loss;
}

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

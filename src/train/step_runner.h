#pragma once

// One optimizer step after another: what a step is made of, and nothing that surrounds it. The
// training loop (trainer.h) holds one, and so do the measurements of bench, tune, plan and trace.
// Read step() in step_runner.cpp first: each line is a verb of docs/design.md.
//
// Every rank has a StepRunner and calls the same methods in the same order. Thread-safety: none;
// one thread uses it. Ownership: owns all that lives as long as the steps (loader, reducer,
// optimizers, loss scale, averaged weights); borrows what TrainContext refers to.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/loader/loader.h"
#include "data/loader/replay.h"
#include "dist/cost_fit.h"
#include "dist/gradient_reducer.h"
#include "train/bad_loss.h"
#include "train/consumption.h"
#include "train/grad_scaler.h"
#include "train/measured_steps.h"
#include "train/narrow_weights.h"
#include "train/phase_tracker.h"
#include "train/phases.h"
#include "train/shared_statistics.h"
#include "train/step_graphs.h"
#include "train/step_state.h"
#include "train/train_context.h"
#include "train/weight_average.h"

namespace dtrain::train {

class StepAgreement;
struct TrainingState;

class StepRunner {
 public:
  // Without memory for gradients and moments that is an error of LibTorch: device_failure().
  explicit StepRunner(TrainContext);

  // Measures, once, what an all-reduce costs: on several ranks, and if the run is long enough for a
  // verdict. Collective.
  void probe_network();
  // The phase of the task in the epoch of the next step. Collective.
  void enter_phase();
  void enter_phase_of(int64_t epoch);
  // One optimizer step. `logging`: loss, norm and scale are read, which waits for the device. All
  // ranks log the same steps. Collective.
  monitoring::StepStats step(bool logging);
  // What the schedule gives is multiplied by it from the next step on.
  void set_rate_factor(double factor) { rate_factor_ = factor; }
  void set_train_mode();

  int64_t steps() const { return position_.step; }     // optimizer steps of the run
  int64_t own_steps() const { return position_.own; }  // optimizer steps that this process ran
  // Steps of a phase before the one that is captured in CUDA graphs; 0: none is
  int64_t steps_before_graphs() const { return graphs_.steps_before(); }
  // Whether a run reads the device at the end of this step: by its interval, or because it is the
  // last one.
  bool logs(int64_t step) const {
    return context_.config.run.log_every.due(step, context_.batches.steps_per_epoch) ||
           step == context_.batches.total_steps;
  }
  int64_t epoch_of(int64_t step) const { return step / context_.batches.steps_per_epoch; }
  std::string where() const;  // "in step 3, phase forward"
  // What was left out of the micro-batch that runs, if one sample is left of it; else "".
  const std::string& left_alone() const { return left_alone_; }

  const TrainContext& context() const { return context_; }
  PhaseTracker& tracker() { return tracker_; }
  Phases& phases() { return phases_; }
  Consumption& consumption() { return consumption_; }
  const data::Loader& loader() const { return loader_; }
  WeightAverage& average() { return average_; }
  const BadLosses& bad_losses() const { return bad_losses_; }
  const std::optional<dist::CostFit>& all_reduce_cost() const { return all_reduce_cost_; }

  // step_runner_state.cpp
  // The tensors of a checkpoint, and in `state` what else a step changes. The model has the
  // averaged weights (train.ema) and the mean of the ranks' statistics. Rank 0 has all. Collective.
  checkpoint::Snapshot snapshot(TrainingState& state);
  // Continues a checkpoint, which is the same on every rank: weights, optimizer, loss scale,
  // position in the data, ledger; at the same world size also the random generators and this rank's
  // own statistics. CheckpointError if it is of another network. Not collective.
  void resume(const checkpoint::Snapshot&, const TrainingState&);

  // step_runner_measure.cpp: measurements, all of them collective. Errors of the device are those
  // of LibTorch.
  // From now on steps are of the phase that this epoch has, however many there are.
  void measure_phase_of(int64_t epoch);
  // Trains `steps` optimizer steps. Calls `issued` when this rank has issued all that its device
  // has to do in them, and before it waits for the device.
  MeasuredSteps measure(int64_t steps, const std::function<void()>& issued = {});
  // One optimizer step at this learning rate, whatever the schedule says. Returns the loss of its
  // samples before the step, which may not be finite.
  double step_at(double learning_rate);
  // Trains `steps` more, and returns the buckets of gradients in the order of sending, each with
  // the median of when it was full. Empty if this rank had no samples in them.
  std::vector<dist::BucketTime> time_buckets(int64_t steps);
  // Runs forward and backward of the next micro-batch twice, measures the second time, and puts the
  // batch back; where samples have no fixed size, of the largest samples, because any micro-batch
  // has to fit. Neither gradients nor statistics of batch norm are sent: a rank whose memory is
  // full throws here, where no other rank waits for it.
  StepMemory measure_memory();
  // For about `seconds`, steps whose batches are in memory already: the rate that a run would have
  // if loading were free. The training that follows is the same, bit by bit, as without it.
  MeasuredSteps measure_headroom(double seconds);

 private:
  // What a micro-step does, apart from its tensors: all that the host decides in it.
  struct Role {
    bool last;             // the optimizer step ends here: gradients are reduced and used
    bool runs;             // forward and backward: this rank has samples, or others wait for it
    bool has_samples;      // false: a sample of zeros takes their place
    int64_t power_of_two;  // loss_power_of_two()
  };
  // Optimizer steps done, and the step that began last, counted from 1.
  struct Position {
    int64_t step = 0, own = 0, begun = 0;
  };

  data::Batch next_batch();
  Role role_of(const data::Batch&) const;
  void write_state(const data::Batch&);  // the numbers of the step that the batch belongs to
  // All that the device does for a micro-step, with what changes between steps in tensors alone,
  // so that CUDA graphs can hold it.
  void micro_step(data::Batch, const Role&);
  tasks::Loss forward(data::Batch, const Role&);
  void backward(const tasks::Loss&, const data::Batch&, const Role&);
  // The optimizer step, from reduced gradients, which are zero afterwards
  void update(const Role&);
  StepGraphs::Kind kind_of(const data::Batch&, const Role&) const;
  bool may_capture(const data::Batch&);
  checkpoint::NamedTensors written();  // what a step changes, with names for messages
  double next_learning_rate() const;
  void read_device(monitoring::StepStats&);
  // Ends a step like every step of a run, without a request.
  void end_step(StepAgreement& boundary);
  std::unique_ptr<data::Loader> loader_of_largest_batch() const;  // gives one micro-batch
  // Copies on the CPU: the averaged weights (train.ema), and the statistics as they are.
  checkpoint::NamedTensors averaged_model();
  std::function<void()> keep_state();  // copies all that a step changes; the result puts it back

  TrainContext context_;
  data::Loader loader_;
  StepState state_;
  std::optional<data::Replay> replay_;  // takes the place of the loader while headroom is measured
  GradScaler scaler_;
  Phases phases_;
  WeightAverage average_;
  NarrowWeights narrow_weights_;
  BadLosses bad_losses_;
  PhaseTracker tracker_;
  SharedStatistics shared_statistics_;
  StepGraphs graphs_;
  Consumption consumption_;
  std::optional<dist::CostFit> all_reduce_cost_;  // probe_network()
  Position position_;
  int64_t captures_from_ = 0;  // steps of this process before graphs are captured
  std::string left_alone_;
  double rate_factor_ = 1;
  std::optional<double> given_rate_;                        // step_at()
  std::optional<int64_t> measured_epoch_;                   // measure_phase_of()
  double loss_ = std::numeric_limits<double>::quiet_NaN();  // the last loss reported
};

}  // namespace dtrain::train

#include "train/step_runner.h"

#include <chrono>
#include <optional>

#include "config/scope.h"
#include "core/clock.h"
#include "core/log.h"
#include "diagnose/verdict.h"
#include "dist/comm_probe.h"
#include "dist/device_wait.h"
#include "measure/run_measurements.h"
#include "models/freeze.h"
#include "text/strings.h"
#include "train/clip.h"
#include "train/evaluate.h"
#include "train/loader_options.h"
#include "train/note_losses.h"
#include "train/schedule.h"

namespace dtrain::train {
namespace {

using measure::Phase;
using measure::Quantity;
using monitoring::StepStats;
using SteadyClock = std::chrono::steady_clock;

std::string text_of(const std::vector<data::Batch::LeftOut>& samples) {
  std::vector<std::string> reasons;
  for (const data::Batch::LeftOut& one : samples) reasons.push_back(one.reason);
  return join(reasons, "; ");
}

// Without train.deterministic kernels may add in another order each time.
constexpr double kShareOfChange = 0.1;

bool uses_graphs(const TrainContext& context) {
  return context.config.train.cuda_graph && !context.device.is_cpu();
}

// What the layers of dtrain's own networks compute in on a GPU. The pointer network and modules use
// the weights of layers outside of them, too.
at::ScalarType narrow_type(const TrainContext& context) {
  const bool copies = context.device.is_cuda() && (config::kConvolutions.holds(context.config) ||
                                                   config::kTaskSequence.holds(context.config));
  return copies ? autocast_dtype(context.precision).value_or(at::kFloat) : at::kFloat;
}

TrainContext prepared(TrainContext context) {
  context.static_buffers = context.static_buffers || uses_graphs(context);
  return context;
}

data::LoaderOptions options_of(const TrainContext& context) {
  data::LoaderOptions options =
      loader_options(context.config, context.batches, context.loader_threads, context.device);
  options.compare_readers = context.compare_readers;
  options.static_buffers = context.static_buffers;
  options.recorder = context.recorder;
  options.verified_epoch = context.verified_epoch;
  return options;
}

}  // namespace

StepRunner::StepRunner(TrainContext context)
    : context_(prepared(std::move(context))),
      loader_(context_.store, context_.splits.train, context_.task.samples(), options_of(context_),
              {context_.host.rank(), context_.host.size()}),
      state_(context_.device),
      scaler_(context_.config.amp,
              needs_loss_scaling(context_.precision, context_.config.dist.wire), context_.device,
              parameter_dtype(context_.precision)),
      phases_(context_.task, context_.config, context_.gradients, context_.host, context_.recorder),
      average_(context_.task.model(), context_.config.train.ema),
      narrow_weights_(context_.task.model(), narrow_type(context_)),
      bad_losses_(context_.device),
      tracker_(context_.device, context_.progress, context_.recorder),
      shared_statistics_(context_.statistics, context_.store.schema(), context_.task.samples(),
                         context_.device, tracker_),
      graphs_(uses_graphs(context_), context_.device,
              {context_.gradients, context_.statistics, context_.host}, tracker_,
              {.written = [this] { return written(); },
               .abandon = [this] { phases_.reducer().abandon(); },
               .was_skipped = [this] { return scaler_.found_inf().item<float>() != 0; }},
              context_.config.train.deterministic ? 0 : kShareOfChange) {
  set_train_mode();
}

void StepRunner::set_train_mode() {
  context_.task.model().train();
  if (context_.config.train.freeze_batch_norm) models::freeze_batch_norm(context_.task.model());
}

void StepRunner::enter_phase() {
  enter_phase_of(measured_epoch_.value_or(epoch_of(position_.step)));
}

void StepRunner::enter_phase_of(int64_t epoch) {
  probe_network();
  if (!phases_.enter(epoch)) return;
  graphs_.forget();
  captures_from_ = position_.own + graphs_.steps_before();
}

std::string StepRunner::where() const {
  const Phase phase = tracker_.current();
  const bool in_step =
      phase != Phase::kEval && phase != Phase::kCheckpoint && phase != Phase::kCount;
  return str(in_step ? "in step " : "after step ", in_step ? position_.begun : position_.step,
             phase == Phase::kCount ? "" : ", phase ",
             phase == Phase::kCount ? "" : measure::kPhaseNames[static_cast<size_t>(phase)]);
}

// ---- one optimizer step -------------------------------------------------------------------------
StepStats StepRunner::step(bool logging) {
  const auto began = SteadyClock::now();
  StepStats stats;
  stats.micro_steps = 0;
  position_.begun = position_.step + 1;
  tracker_.begin_step();

  bool last = false;
  while (!last) {
    tracker_.enter(Phase::kDataWait);
    data::Batch batch = next_batch();
    const Role role = role_of(batch);
    last = role.last;
    stats.samples = batch.global_samples;
    if (stats.micro_steps++ == 0) write_state(batch);
    consumption_.add(batch);
    micro_step(std::move(batch), role);
  }
  tracker_.clock().note(phases_.reducer().backward_times(), consumption_.take_padded());

  stats.epoch = epoch_of(position_.step);
  stats.learning_rate = next_learning_rate();
  tracker_.set_step(++position_.step);
  ++position_.own;
  if (logging) read_device(stats);
  tracker_.leave();

  stats.step = position_.step;
  stats.bytes_reduced = phases_.reducer().bytes_per_step();
  stats.step_seconds = seconds_since(began);
  return stats;
}

data::Batch StepRunner::next_batch() {
  if (replay_) return replay_->next();
  // The GPU augments with the cores that it computes with: that is not the time of the link.
  return loader_.next([this] { tracker_.enter(Phase::kH2d); },
                      [this] { tracker_.enter(Phase::kForward); });
}

StepRunner::Role StepRunner::role_of(const data::Batch& batch) const {
  return {.last = batch.micro + 1 == batch.micro_steps,
          .runs = shared_statistics_.runs(batch),
          .has_samples = batch.samples() > 0,
          .power_of_two = loss_power_of_two(context_.task.planned_weight(batch.global_samples),
                                            context_.host.size())};
}

void StepRunner::write_state(const data::Batch& batch) {
  state_.write({.seed = context_.config.train.seed,
                .step = position_.step,
                .epoch = batch.epoch,
                .learning_rate = next_learning_rate()});
  narrow_weights_.refresh();
}

void StepRunner::micro_step(data::Batch batch, const Role& role) {
  if (!role.has_samples && role.runs) batch = shared_statistics_.zero_sample();
  if (batch.samples() == 1) left_alone_ = text_of(batch.left_out);
  std::optional<tasks::Loss> loss;
  std::vector<StepGraphs::Stage> stages;
  if (role.runs) {
    stages.push_back({Phase::kForward, [&] {
                        phases_.reducer().arm(role.last, /*has_samples=*/true);
                        loss = forward(batch, role);
                      }});
    stages.push_back({Phase::kBackward, [&] {
                        backward(*loss, batch, role);
                        loss.reset();
                      }});
  } else {
    phases_.reducer().arm(role.last, /*has_samples=*/false);
  }
  if (role.last) {
    stages.push_back({Phase::kAllReduceWait, [&] { phases_.reducer().finish(); },
                      /*of_previous=*/true});
    stages.push_back({Phase::kOptimizer, [&] { update(role); }});
  }
  const StepGraphs::Kind kind = graphs_.enabled() ? kind_of(batch, role) : StepGraphs::Kind{};
  if (graphs_.run(kind, stages, may_capture(batch))) phases_.reducer().forget_backward_times();
  left_alone_.clear();
}

tasks::Loss StepRunner::forward(data::Batch batch, const Role& role) {
  to_precision(batch, context_.precision);
  const layers::RandomScope randomness(state_.randomness(batch.sample_ids));
  const SharedStatistics::Scope statistics(shared_statistics_, role.has_samples);
  const layers::AutocastGuard autocast = autocast_for(context_.precision, context_.device);
  const NarrowWeights::Scope weights(narrow_weights_, [this](const at::Tensor& parameter) {
    return phases_.reducer().bucket_of(parameter);
  });
  return context_.task.loss(batch);
}

void StepRunner::backward(const tasks::Loss& loss, const data::Batch& batch, const Role& role) {
  if (!graphs_.captures()) phases_.reducer().begin_backward();
  loss.per_sample.backward(
      role.has_samples ? note_losses(loss, batch.sample_ids, scaler_, role.power_of_two,
                                     {phases_.reducer().running_sums(), bad_losses_.record()})
                       : at::zeros_like(loss.per_sample));
  if (!role.last) phases_.reducer().end_backward();
}

void StepRunner::update(const Role& role) {
  dist::GradientReducer& reducer = phases_.reducer();
  scaler_.unscale(reducer.flat(), reducer.weight_sum(), role.power_of_two);
  const at::Tensor factor = clip(reducer.flat(), scaler_.norm(), context_.config.optimizer);
  phases_.optimizer().step(state_.learning_rate(), factor, scaler_.found_inf(), scaler_.taken());
  average_.update(scaler_.taken());
  scaler_.update();
  reducer.zero();
}

StepGraphs::Kind StepRunner::kind_of(const data::Batch& batch, const Role& role) const {
  StepGraphs::Kind kind{.last = role.last,
                        .has_samples = role.has_samples,
                        .power_of_two = role.power_of_two,
                        .of_task = context_.task.decisions(batch)};
  for (const at::Tensor& tensor : {batch.inputs, batch.targets, batch.lengths, batch.sample_ids}) {
    kind.addresses.push_back(tensor.defined() ? tensor.const_data_ptr() : nullptr);
    if (tensor.defined())
      kind.shape.insert(kind.shape.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  return kind;
}

// By what all ranks know. A step of all its samples has the shape of most others.
bool StepRunner::may_capture(const data::Batch& batch) {
  return position_.own >= captures_from_ && batch.global_samples == context_.batches.global_batch &&
         phases_.reducer().agreed();
}

checkpoint::NamedTensors StepRunner::written() {
  using Tensors = std::vector<at::Tensor>;
  checkpoint::NamedTensors all;
  const auto add = [&](const std::string& what, const checkpoint::NamedTensors& named) {
    for (const auto& [name, tensor] : named) all.emplace_back(what + name, tensor);
  };
  const auto number = [&](const char* what, const Tensors& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) all.emplace_back(str(what, i), tensors[i]);
  };
  const Tensors& buckets = phases_.reducer().flat();
  const Tensors reduced = phases_.reducer().tensors();  // buckets, then sums
  add("the parameter ", context_.task.model().named_parameters().pairs());
  add("the buffer ", context_.task.model().named_buffers().pairs());
  add("the optimizer's ", phases_.optimizer().named_state());
  number("gradient bucket ", buckets);
  number("the reducer's sum ", {reduced.begin() + std::ssize(buckets), reduced.end()});
  number("the loss scaler's number ", scaler_.tensors());
  number("averaged weight ", average_.tensors());
  all.emplace_back("the record of losses that are not finite", bad_losses_.record());
  return all;
}

double StepRunner::next_learning_rate() const {
  if (given_rate_) return *given_rate_;
  const config::Config& config = context_.config;
  return rate_factor_ * learning_rate(config.schedule, config.optimizer.lr, position_.step,
                                      context_.batches.total_steps,
                                      context_.batches.steps_per_epoch);
}

void StepRunner::read_device(StepStats& stats) {
  tracker_.wait_for_others();  // with NCCL the host waits for the other ranks here
  stats.logging = true;
  const dist::GradientReducer& reducer = phases_.reducer();
  const at::Tensor numbers =
      at::stack({reducer.loss_sum().to(at::kDouble), reducer.weight_sum().to(at::kDouble),
                 scaler_.norm().to(at::kDouble), scaler_.scale().to(at::kDouble),
                 scaler_.skipped().to(at::kDouble)});
  dist::wait_for_device(context_.device, {&context_.gradients, context_.statistics});
  const at::Tensor read = numbers.to(at::kCPU);
  const double* values = read.const_data_ptr<double>();
  // A step whose samples were all left out has no loss: the last one is reported again.
  if (values[1] != 0) loss_ = values[0] / values[1];
  stats.loss = loss_;
  stats.grad_norm = values[2];
  if (scaler_.enabled()) stats.values[Quantity::kLossScale] = values[3];
  stats.values[Quantity::kSkippedSteps] = values[4];
}

// ---- the network --------------------------------------------------------------------------------
void StepRunner::probe_network() {
  const auto fewest =
      static_cast<int64_t>(diagnose::kFewestSteps + measure::RunMeasurements::kWarmUpSteps);
  if (all_reduce_cost_ || context_.host.size() == 1) return;
  if (context_.batches.total_steps - position_.step < fewest) return;  // no verdict needs it
  const auto began = SteadyClock::now();
  tracker_.wait_for_others();
  all_reduce_cost_ = dist::probe_all_reduce(context_.gradients, context_.device);
  phases_.use_cost(*all_reduce_cost_);
  log::info(str("an all-reduce of gradients takes ", fixed(1e3 * all_reduce_cost_->latency, 3),
                " ms, and ", fixed(1e3 * all_reduce_cost_->seconds_per_byte * (1 << 20), 3),
                " ms more for each MiB (measured in ", fixed(seconds_since(began), 1), " s)"));
}

}  // namespace dtrain::train

#include "train/trainer.h"

#include <algorithm>

#include "core/check.h"
#include "core/library_text.h"
#include "core/log.h"
#include "core/strings.h"
#include "device/device.h"
#include "diagnose/verdict.h"
#include "dist/device_wait.h"
#include "dist/failure.h"
#include "dist/object_collectives.h"
#include "models/freeze.h"
#include "train/clip.h"
#include "train/evaluate.h"
#include "train/loader_options.h"
#include "train/schedule.h"

namespace dtrain::train {
namespace {

using measure::Phase;
using monitoring::StepStats;
using SteadyClock = std::chrono::steady_clock;

// With this step of the process a verdict comes at the latest: 100 steps have ended when step 101
// is reported.
constexpr int64_t kFirstVerdict = 101;
constexpr auto kTooEarlyForVerdict =
    static_cast<int64_t>(measure::RunMeasurements::kWarmUpSteps + diagnose::kFewestSteps);

IntervalTrigger trigger(const config::Interval& interval, const TrainContext& context) {
  return {interval, context.batches.steps_per_epoch, context.clock,
          /*keeps_time=*/context.host.rank() == 0};
}

std::string text_of(const std::vector<int64_t>& lengths) {
  std::vector<std::string> words;
  for (const int64_t length : lengths) words.push_back(str(length));
  return join(words, ", ");
}

std::string text_of(const std::vector<data::Batch::LeftOut>& samples) {
  std::vector<std::string> reasons;
  for (const data::Batch::LeftOut& one : samples) reasons.push_back(one.reason);
  return join(reasons, "; ");
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

Trainer::Trainer(TrainContext context)
    : context_(std::move(context)),
      loader_(context_.store, context_.splits.train, context_.task.samples(), options_of(context_),
              {context_.host.rank(), context_.host.size()}),
      state_(context_.device),
      scaler_(context_.config.amp,
              needs_loss_scaling(context_.precision, context_.config.dist.wire), context_.device,
              parameter_dtype(context_.precision)),
      phases_(context_.task, context_.config, context_.gradients, context_.host, context_.recorder),
      average_(context_.task.model(), context_.config.train.ema),
      bad_losses_(context_.device),
      tracker_(context_.device, context_.progress, context_.recorder),
      shared_statistics_(context_.statistics, context_.store.schema(), context_.task.samples(),
                         context_.device, tracker_),
      agreement_(context_.host),
      triggers_{trigger(context_.config.checkpoint.every, context_),
                trigger(context_.config.train.eval_every, context_),
                trigger(context_.config.run.log_every, context_)},
      watched_{.metric = watched_metric(context_.task, context_.config.train.metric),
               .watch = {},
               .plateau = {}},
      measurements_(context_.host),
      meter_(context_.cores, device::properties(context_.device).pci_bus_id),
      device_(device::properties(context_.device)) {
  DTRAIN_CHECK(
      context_.checkpoints || context_.host.rank() != 0 || context_.config.run.name.empty(),
      "run '", context_.config.run.name, "' has no folder for its checkpoints");
  set_train_mode();
}

Trainer::~Trainer() = default;

void Trainer::set_train_mode() {
  context_.task.model().train();
  if (context_.config.train.freeze_batch_norm) models::freeze_batch_norm(context_.task.model());
}

TrainResult Trainer::run() {
  try {
    return train();
  } catch (const c10::Error& e) {
    const std::optional<DeviceFailure> failure =
        device_failure(e, context_.batches,
                       {context_.device, static_cast<double>(device_.memory_bytes),
                        device::works(context_.device), context_.memory_advice},
                       where());
    if (!failure && !left_alone_.empty()) {
      throw DataError(
          str("the network cannot train on the one sample that is left of a micro-batch, ", where(),
              ": ", dist::first_line(e),
              ". Repair the data, use a larger --batch-size, or a network without ",
              "batch norm. Left out: ", left_alone_));
    }
    if (!failure) throw;
    // Nothing that belongs to a failed GPU can be freed: that throws again, where nobody can
    // catch it.
    if (context_.device_failed && failure->lost) context_.device_failed(failure->error);
    throw failure->error;
  }
}

std::string Trainer::where() const {
  const Phase phase = tracker_.current();
  const bool in_step =
      phase != Phase::kEval && phase != Phase::kCheckpoint && phase != Phase::kCount;
  return str(in_step ? "in step " : "after step ", in_step ? begun_step_ : step_,
             phase == Phase::kCount ? "" : ", phase ",
             phase == Phase::kCount ? "" : measure::kPhaseNames[static_cast<size_t>(phase)]);
}

// ---- the run ------------------------------------------------------------------------------------
TrainResult Trainer::train() {
  begin();
  if (watched_.evaluation_owed && !make_up_evaluation()) stop_on_request();
  // A resumed run may have no step left, only its test.
  phases_.enter(epoch_of(std::min(step_, context_.batches.total_steps - 1)));
  while (result_.exit_code == 0 && step_ < context_.batches.total_steps && !stops_early()) {
    enter_task_phase();
    StepStats stats = step();
    report(stats);

    const Requests requests = exchange_requests();
    const bool last = step_ == context_.batches.total_steps;
    if (last || step_ % context_.batches.steps_per_epoch == 0) context_.store.check_unchanged();
    if (step_ == verified_until()) say_what_was_compared();
    watched_.evaluation_owed = last || requests.evaluate || triggers_.evaluate.due(step_);
    // Also before and in an evaluation, which may take long: the resumed run makes it up.
    if ((requests.stop && !last) || (watched_.evaluation_owed && !evaluate_and_watch())) {
      stop_on_request();
    } else if (last || stops_early()) {
      save("the end");
    } else if (requests.save) {
      save("by time");
    } else if (triggers_.save.due(step_)) {
      save("by steps");
    }
  }
  agreement_.settle();
  if (result_.exit_code == 0 && !test()) result_.exit_code = kExitStoppedOnRequest;
  return conclude();
}

void Trainer::stop_on_request() {
  save("asked to stop");
  result_.exit_code = kExitStoppedOnRequest;
}

void Trainer::begin() {
  nodes_ = dist::all_gather_object(context_.host, context_.node);
  tracker_.set_step(step_);
  if (context_.host.rank() == 0 && !loader_.length_classes().empty()) {
    log::info(
        str("batches are padded to these numbers of rows: ", text_of(loader_.length_classes())));
  }
  probe_network();
  probe_headroom();
  tracker_.wait_for_others();
  agreement_.exchange_now(
      {.verdict = take_verdict_request()});  // the first step answers what was asked before it
  gradients_before_ = context_.gradients.traffic();
  if (context_.statistics) statistics_before_ = context_.statistics->traffic();
  started_ = SteadyClock::now();
  for (IntervalTrigger* trigger : {&triggers_.save, &triggers_.evaluate, &triggers_.log})
    trigger->restart();
  window_.begin(step_, started_, tracker_.clock().totals());
  set_state(monitoring::RunState::kTraining);
}

bool Trainer::make_up_evaluation() {
  phases_.enter(epoch_of(step_ - 1));
  saved_step_ = -1;  // the checkpoint of this step lacks what the evaluation finds
  if (!evaluate_and_watch()) return false;
  if (step_ == context_.batches.total_steps || stops_early()) save("the end");
  return true;
}

// The phase of the next step. Patience starts again with each phase.
void Trainer::enter_task_phase() {
  probe_network();
  if (measured_epoch_) return phases_.enter(*measured_epoch_);
  phases_.enter(epoch_of(step_));
  if (step_ > 0 && step_ % context_.batches.steps_per_epoch == 0 &&
      context_.task.phase(epoch_of(step_)).name != context_.task.phase(epoch_of(step_ - 1)).name) {
    watched_.watch.evaluations_without_improvement =
        watched_.plateau.evaluations_without_improvement = 0;
    if (result_.own_steps > 0) headroom_ = {};  // measured in the phase before
  }
}

Requests Trainer::exchange_requests() {
  tracker_.wait_for_others();
  return agreement_.exchange({.stop = context_.stop_requested.load(),
                              .save = triggers_.save.request(),
                              .evaluate = triggers_.evaluate.request(),
                              .log = triggers_.log.request(),
                              .verdict = take_verdict_request()});
}

bool Trainer::take_verdict_request() {
  return context_.verdict_requested != nullptr && context_.verdict_requested->exchange(false);
}

std::string Trainer::reason_to_stop() const {
  const int64_t total = context_.batches.total_steps;
  if (result_.exit_code == kExitStoppedOnRequest) {
    return str("stopped on request at step ", step_, " of ", total,
               step_ == total ? ", before its last evaluation" : "", "; --resume auto continues");
  }
  if (stops_early()) {
    const MetricWatch& watch = watched_.watch;
    return str(watch.evaluations_without_improvement, " evaluations without a better ",
               watched_.metric.name, " (best ", fixed(watch.best, 4), " at step ", watch.best_step,
               "), at step ", step_, " of ", total);
  }
  return total == 1 ? "the 1 step is done" : str("all ", total, " steps are done");
}

TrainResult Trainer::conclude() {
  if (step_ < verified_until()) say_what_was_compared();
  tracker_.clock().synchronize();
  const Consumption::Totals consumed = consumption_.totals(context_.host, loader_.bad_ids());
  result_.reason = reason_to_stop();
  result_.steps = step_;
  result_.ledger = consumed.ledger;
  result_.bad_samples = consumed.bad_samples;
  result_.padding_waste = padding_waste(consumed.rows, consumed.cells);
  result_.metric = watched_.metric.name;
  result_.best = watched_.watch.best;
  gather_measurements(
      used_resources(),
      /*of_steps_alone=*/false);  // there may have been an evaluation or a test since
  result_.evidence = evidence();
  result_.seconds = std::chrono::duration<double>(SteadyClock::now() - started_).count();
  return result_;
}

// ---- one optimizer step -------------------------------------------------------------------------
StepStats Trainer::step() {
  const auto began = SteadyClock::now();
  StepStats stats;
  stats.micro_steps = 0;
  begun_step_ = step_ + 1;
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

  stats.epoch = epoch_of(step_);
  stats.learning_rate = next_learning_rate();
  tracker_.set_step(++step_);
  ++result_.own_steps;
  if (logs_step()) read_device(stats);
  tracker_.leave();

  stats.step = step_;
  stats.bytes_reduced = phases_.reducer().bytes_per_step();
  stats.step_seconds = std::chrono::duration<double>(SteadyClock::now() - began).count();
  return stats;
}

data::Batch Trainer::next_batch() {
  if (replay_) return replay_->next();
  // The GPU augments with the cores that it computes with: that is no matter of the link.
  return loader_.next([this] { tracker_.enter(Phase::kH2d); },
                      [this] { tracker_.enter(Phase::kForward); });
}

Trainer::Role Trainer::role_of(const data::Batch& batch) const {
  return {.last = batch.micro + 1 == batch.micro_steps,
          .runs = shared_statistics_.runs(batch),
          .has_samples = batch.samples() > 0,
          .power_of_two = loss_power_of_two(context_.task.planned_weight(batch.global_samples),
                                            context_.host.size())};
}

void Trainer::write_state(const data::Batch& batch) {
  state_.write({.seed = context_.config.train.seed,
                .step = step_,
                .epoch = batch.epoch,
                .learning_rate = next_learning_rate()});
}

void Trainer::micro_step(data::Batch batch, const Role& role) {
  phases_.reducer().arm(role.last, role.runs);
  if (batch.samples() == 1) left_alone_ = text_of(batch.left_out);
  if (role.runs) forward_backward(std::move(batch), role);
  left_alone_.clear();
  if (!role.last) return;
  tracker_.enter(Phase::kAllReduceWait);
  phases_.reducer().finish();
  tracker_.enter(Phase::kOptimizer);
  update(role);
}

void Trainer::forward_backward(data::Batch batch, const Role& role) {
  if (!role.has_samples) batch = shared_statistics_.zero_sample();

  tracker_.enter(Phase::kForward);
  to_precision(batch, context_.precision);
  const layers::RandomScope randomness(state_.randomness(batch.sample_ids));
  const SharedStatistics::Scope statistics(shared_statistics_, role.has_samples);
  const tasks::Loss loss = [&] {
    const layers::AutocastGuard autocast = autocast_for(context_.precision, context_.device);
    return context_.task.loss(batch);
  }();

  tracker_.enter(Phase::kBackward);
  phases_.reducer().begin_backward();
  if (role.has_samples) {
    phases_.reducer().add_loss(loss.sum.detach(), loss.weight);
    bad_losses_.note(loss.per_sample, batch.sample_ids);
  }
  scaler_.scale_loss(role.has_samples ? loss.sum : loss.sum * 0, role.power_of_two).backward();
}

void Trainer::update(const Role& role) {
  dist::GradientReducer& reducer = phases_.reducer();
  scaler_.unscale(reducer.flat(), reducer.weight_sum(), role.power_of_two);
  const at::Tensor factor = clip(reducer.flat(), scaler_.norm(), context_.config.optimizer);
  phases_.optimizer().step(state_.learning_rate(), factor, scaler_.found_inf());
  average_.update(scaler_.found_inf());
  scaler_.update();
  reducer.zero();
}

double Trainer::next_learning_rate() const {
  if (given_rate_) return *given_rate_;
  const config::Config& config = context_.config;
  return watched_.plateau.factor * learning_rate(config.schedule, config.optimizer.lr, step_,
                                                 context_.batches.total_steps,
                                                 context_.batches.steps_per_epoch);
}

bool Trainer::logs_step() const {
  const bool verdict_due = result_.own_steps == kFirstVerdict &&
                           logged_own_step_ <= kTooEarlyForVerdict && !measured_epoch_ && !replay_;
  return given_rate_ || verdict_due || result_.own_steps == 1 || agreement_.granted().log ||
         agreement_.granted().verdict || triggers_.log.due(step_) ||
         step_ == context_.batches.total_steps;
}

void Trainer::read_device(StepStats& stats) {
  tracker_.wait_for_others();  // with NCCL the host waits for the other ranks here
  stats.logging = true;
  logged_own_step_ = result_.own_steps;
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
  if (scaler_.enabled()) stats.loss_scale = values[3];
  stats.skipped_total = static_cast<int64_t>(values[4]);
}

namespace {

std::string smaller_batch(const BatchArithmetic& b) {
  if (largest_micro_batch(b) == 1) {
    return "the micro-batch cannot be smaller: use --model.checkpointing true (convolutional "
           "networks), --amp bf16 or "
           "fp16, or a smaller network";
  }
  return dtrain::str("use ", micro_batch_flags(b, largest_micro_batch(b) / 2),
                     ", which trains with the same global batch of ", b.global_batch);
}

}  // namespace

std::optional<DeviceFailure> device_failure(const c10::Error& error, const BatchArithmetic& b,
                                            const DeviceState& state, const std::string& where) {
  const at::Device device = state.device;
  const std::string why = dist::first_line(error);
  // First: what a library cannot allocate on a GPU that has failed is not a matter of memory.
  if (dist::says_failed(error) || !state.works) {
    return DeviceFailure{DeviceError(dtrain::str(
                             device, " has failed ", where, ": ", why,
                             ". An earlier kernel may be the cause: CUDA_LAUNCH_BLOCKING=1 shows "
                             "which. `dmesg` has the driver's message (Xid); --resume auto "
                             "continues from the newest checkpoint")),
                         /*lost=*/true};
  }
  const std::optional<double> of_host =
      device.is_cpu() ? out_of_host_memory(error.what_without_backtrace()) : std::nullopt;
  if (!of_host && !dist::is_out_of_memory(error)) return std::nullopt;
  // The allocator's message is long, and repeats what is said here; one of a library names
  // the library.
  const bool by_allocator = of_host || why.starts_with("CUDA out of memory");
  const double requested =
      of_host.value_or(bytes_out_of_device_memory(error.what_without_backtrace()));
  const int64_t samples = largest_micro_batch(b);
  const std::string advice = state.advice ? state.advice(requested) : "";
  return DeviceFailure{
      DeviceError(dtrain::str(
          "out of ", of_host ? "host memory" : dtrain::str("memory on ", device),
          requested > 0 ? dtrain::str(" for a tensor of ", human_bytes(requested)) : "",
          " with a micro-batch of ", samples, samples == 1 ? " sample" : " samples",
          by_allocator ? "" : " (" + why + ")", " (peak ",
          human_bytes(static_cast<double>(device::memory_use(device).peak)), " of ",
          human_bytes(state.memory_bytes), "): ", advice.empty() ? smaller_batch(b) : advice)),
      /*lost=*/false};
}

}  // namespace dtrain::train

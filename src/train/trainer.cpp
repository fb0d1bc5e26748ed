#include "train/trainer.h"

#include <algorithm>
#include <optional>

#include "core/check.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "layers/batch_norm.h"
#include "layers/dropout.h"
#include "models/freeze.h"
#include "train/clip.h"
#include "train/device.h"
#include "train/padding.h"
#include "train/schedule.h"

namespace dtrain::train {
namespace {

using monitoring::Phase;
using monitoring::StepStats;
using Clock = std::chrono::steady_clock;

// The optimizer takes the rate as a tensor: float64 on the CPU; on a GPU float32, filled by a kernel, not by a copy.
at::Tensor rate_tensor(double rate, at::Device device) {
  return at::full({}, rate, at::TensorOptions().device(device).dtype(device.is_cpu() ? at::kDouble : at::kFloat));
}

// What a rank without samples runs so that batch norm's collectives find all ranks: it adds nothing anywhere.
data::Batch sample_of_zeros(const data::Schema& schema, const data::SampleSpec& spec, at::Device device) {
  const auto sizes = [](const data::Field& field) {
    std::vector<int64_t> all = {1};
    for (const int64_t size : field.shape) all.push_back(size == data::kVariable ? 1 : size);
    return all;
  };
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  const auto longs = at::TensorOptions(device).dtype(at::kLong);
  data::Batch batch;
  if (spec.kind == data::SampleSpec::Kind::kImage) {
    batch.inputs =
        at::zeros({1, 3, spec.image_size, spec.image_size}, floats.memory_format(at::MemoryFormat::ChannelsLast));
  } else {
    batch.inputs = at::zeros(sizes(schema.input), floats);
    batch.lengths = at::ones({1}, longs);
  }
  const bool whole = schema.target.element == data::Element::kInt64;
  batch.targets = at::zeros(sizes(schema.target), whole ? longs : floats);
  batch.rows = 1;
  batch.ids = {0};
  return batch;
}

}  // namespace

Trainer::Trainer(Parts parts)
    : parts_(std::move(parts)),
      loader_(parts_.store, parts_.splits.train, parts_.task.samples(),
              {.batch_size = parts_.batches.batch_size,
               .global_batch = parts_.batches.global_batch,
               .shuffle = parts_.config.train.overfit_batches == 0,  // the same batches again and again
               .augment = parts_.config.train.overfit_batches == 0,
               .seed = parts_.config.train.seed,
               .threads = parts_.loader_threads,
               .prefetch = static_cast<int>(parts_.config.data.prefetch),
               .verify = parts_.config.data.verify,
               .skip_bad = parts_.config.data.skips_bad_samples(),
               .device = parts_.device},
              {parts_.host.rank(), parts_.host.size()}),
      scaler_(parts_.config.amp, needs_loss_scaling(parts_.precision), parts_.device,
              parameter_dtype(parts_.precision)),
      phases_(parts_.task, parts_.config, parts_.gradients, parts_.host),
      average_(parts_.task.model(), parts_.config.train.ema),
      bad_losses_(parts_.device),
      clock_(parts_.device),
      agreement_(parts_.host),
      save_pace_(parts_.config.checkpoint.every, parts_.batches.steps_per_epoch, parts_.host.rank() == 0),
      eval_pace_(parts_.config.train.eval_every, parts_.batches.steps_per_epoch, parts_.host.rank() == 0),
      log_pace_(parts_.config.run.log_every, parts_.batches.steps_per_epoch, parts_.host.rank() == 0),
      watched_(watched_metric(parts_.task, parts_.config.train.metric)),
      memory_total_(static_cast<double>(device_info(parts_.device).memory_bytes)) {
  DTRAIN_CHECK(parts_.checkpoints || parts_.host.rank() != 0 || parts_.config.run.name.empty(), "run '",
               parts_.config.run.name, "' has no folder for its checkpoints");
  set_train_mode();
}

Trainer::~Trainer() = default;

void Trainer::set_train_mode() {
  parts_.task.model().train();
  if (parts_.config.train.freeze_batch_norm) models::freeze_batch_norm(parts_.task.model());
}

Outcome Trainer::run() {
  try {
    return train();
  } catch (const c10::OutOfMemoryError&) {
    throw out_of_memory(parts_.batches, parts_.device);
  }
}

Outcome Trainer::train() {
  const int64_t total = parts_.batches.total_steps, patience = parts_.config.train.patience;
  started_ = last_report_ = Clock::now();
  for (Pace* pace : {&save_pace_, &eval_pace_, &log_pace_}) pace->done(started_);
  last_report_step_ = first_step_ = skips_checked_at_ = step_;
  for (const auto& sink : parts_.sinks) sink->state("training");
  outcome_.reason = str("all ", total, " steps are done");
  if (evaluation_owed_) {
    phases_.enter(epoch_of(step_ - 1));
    evaluate_and_watch();
  }
  phases_.enter(epoch_of(std::min(step_, total - 1)));  // a resumed run may have only its test left

  while (step_ < total && !watch_.wants_to_stop(patience)) {
    phases_.enter(epoch_of(step_));
    if (begins_phase()) watch_.stale = plateau_.bad = 0;
    StepStats stats = step();
    report(stats);

    parts_.progress("all_reduce", step_);
    const auto now = Clock::now();
    const Wishes agreed = agreement_.exchange({.stop = parts_.stop_requested.load(),
                                               .save = save_pace_.wish(now),
                                               .evaluate = eval_pace_.wish(now),
                                               .log = log_pace_.wish(now)});
    log_now_ = agreed.log;
    const bool last = step_ == total;
    const bool evaluates = last || agreed.evaluate || eval_pace_.due(step_);
    if (agreed.stop && !last) {  // before an evaluation: who preempts does not wait for long
      evaluation_owed_ = evaluates;
      save("asked to stop");
      outcome_.exit_code = kExitStoppedOnRequest;
      outcome_.reason = str("stopped on request at step ", step_, " of ", total, "; --resume auto continues");
      break;
    }
    if (evaluates) evaluate_and_watch();
    if (last || watch_.wants_to_stop(patience)) {
      save("the end");
    } else if (agreed.save || save_pace_.due(step_)) {
      save(agreed.save ? "by time" : "by steps");
    }
  }
  agreement_.settle();
  if (watch_.wants_to_stop(patience)) {
    outcome_.reason = str(watch_.stale, " evaluations without a better ", watched_.name, " (best ",
                          fixed(watch_.best, 4), " at step ", watch_.best_step, "), at step ", step_, " of ", total);
  }

  if (outcome_.exit_code == 0 && !parts_.splits.test.empty()) {
    const monitoring::EvalStats test = evaluate_split(parts_.splits.test, "test");
    for (const auto& sink : parts_.sinks) sink->record(test);
  }
  clock_.synchronize();
  const Consumed consumed = consumed_by_all();
  outcome_.ledger = consumed.ledger;
  outcome_.bad_samples = consumed.bad_samples;
  outcome_.padding_waste = padding_waste(consumed.rows, consumed.cells);
  outcome_.steps = step_;
  outcome_.own_steps = step_ - first_step_;
  outcome_.metric = watched_.name;
  outcome_.best = watch_.best;
  outcome_.phases = clock_.totals();
  outcome_.seconds = seconds_between(started_, Clock::now());
  return outcome_;
}

// ---- one optimizer step -------------------------------------------------------------------------------------------
StepStats Trainer::step() {
  const auto begin = Clock::now();
  dist::GradientReducer& reducer = phases_.reducer();
  StepStats stats;
  stats.micro_steps = 0;
  int64_t power = 0;

  bool last = false;
  while (!last) {
    parts_.progress("data", step_);
    clock_.enter(Phase::kDataWait);
    data::Batch batch = loader_.next([this] { clock_.enter(Phase::kH2d); });
    last = batch.micro + 1 == batch.micro_steps;
    power = loss_power_of_two(parts_.task.planned_weight(batch.global_samples), parts_.host.size());
    reducer.arm(last, batch.samples() > 0 || parts_.statistics != nullptr);
    stats.samples = batch.global_samples;
    forward_backward(std::move(batch), power);
    ++stats.micro_steps;
  }

  parts_.progress("all_reduce", step_);
  clock_.enter(Phase::kAllReduceWait);
  reducer.finish();

  parts_.progress("optimizer", step_);
  clock_.enter(Phase::kOptimizer);
  scaler_.unscale(reducer.flat(), reducer.weight_sum(), power);
  stats.learning_rate = plateau_.factor * learning_rate(parts_.config.schedule, parts_.config.optimizer.lr, step_,
                                                        parts_.batches.total_steps, parts_.batches.steps_per_epoch);
  const at::Tensor factor = clip(reducer.flat(), scaler_.norm(), parts_.config.optimizer);
  phases_.optimizer().step(rate_tensor(stats.learning_rate, parts_.device), factor, scaler_.found_inf());
  average_.update(scaler_.found_inf());
  scaler_.update();
  stats.epoch = epoch_of(step_);
  ++step_;
  if (logs(step_)) read_device(stats);
  reducer.zero();
  clock_.stop();
  clock_.drain();

  stats.step = step_;
  stats.bytes_reduced = reducer.bytes_per_step();
  stats.step_seconds = seconds_between(begin, Clock::now());
  return stats;
}

void Trainer::forward_backward(data::Batch batch, int64_t power) {
  for (const int64_t id : batch.ids) ledger_.add(batch.epoch, id);
  samples_seen_ += batch.samples();
  const bool counts = batch.samples() > 0;
  if (!counts && parts_.statistics == nullptr) return;
  if (!counts) batch = sample_of_zeros(parts_.store.schema(), parts_.task.samples(), parts_.device);
  if (counts && batch.lengths.defined()) {
    rows_ += batch.rows;
    cells_ += batch.inputs.size(0) * batch.inputs.size(1);
  }

  parts_.progress("forward", step_);
  clock_.enter(Phase::kForward);
  to_precision(batch, parts_.precision);
  const at::Tensor ids = layers::ids_on(parts_.device, batch.ids);
  const layers::RandomScope randomness({parts_.config.train.seed, step_, ids});
  std::optional<layers::SyncScope> shared;  // statistics of batch norm, over ranks, in forward and in backward
  const char* pass = "forward";
  if (parts_.statistics != nullptr) {
    // Who waits here is a victim to the watchdog, and waits for others: a straggler is known by its own time. On a GPU
    // the host does not wait, and backward runs on another thread than the clock's.
    shared.emplace(
        [this, &pass](at::Tensor& sums) {
          const bool waits = parts_.device.is_cpu();
          parts_.progress("all_reduce", step_);
          const Phase before = waits ? clock_.enter(Phase::kAllReduceWait) : Phase::kCount;
          parts_.statistics->all_reduce(sums, dist::ReduceOp::kSum).wait();
          if (waits) clock_.enter(before);
          parts_.progress(pass, step_);
        },
        counts);
  }
  const tasks::Loss loss = [&] {
    const layers::AutocastGuard autocast = autocast_for(parts_.precision, parts_.device);
    return parts_.task.loss(batch);
  }();

  pass = "backward";
  parts_.progress(pass, step_);
  clock_.enter(Phase::kBackward);
  if (counts) {
    phases_.reducer().add_loss(loss.sum.detach(), loss.weight);
    bad_losses_.note(loss.per_sample, ids);
  }
  scaler_.scale_loss(counts ? loss.sum : loss.sum * 0, power).backward();
}

void Trainer::read_device(StepStats& stats) {
  parts_.progress("all_reduce", step_);  // with NCCL it is here that the host waits for the other ranks
  stats.logging = true;
  const dist::GradientReducer& reducer = phases_.reducer();
  const at::Tensor numbers =
      at::stack({reducer.loss_sum().to(at::kDouble), reducer.weight_sum().to(at::kDouble),
                 scaler_.norm().to(at::kDouble), scaler_.scale().to(at::kDouble), scaler_.skipped().to(at::kDouble)})
          .to(at::kCPU);
  const double* values = numbers.const_data_ptr<double>();
  // A step of which all samples were left out has none: the last one stands.
  stats.loss = loss_ = values[1] == 0 ? loss_ : values[0] / values[1];
  stats.grad_norm = values[2];
  if (scaler_.enabled()) stats.loss_scale = values[3];
  stats.skipped_total = static_cast<int64_t>(values[4]);
}

bool Trainer::logs(int64_t step) const {
  return step == 1 || log_now_ || log_pace_.due(step) || step == parts_.batches.total_steps || step == first_step_ + 1;
}

tasks::MetricSpec watched_metric(const tasks::Task& task, const std::string& name) {
  const std::vector<tasks::MetricSpec> metrics = task.metrics();
  std::vector<std::string> names;
  for (const tasks::MetricSpec& metric : metrics) {
    if (name.empty() ? metric.primary : metric.name == name) return metric;
    names.push_back(metric.name);
  }
  throw ConfigError(str("train.metric: '", name, "' is none of this task's metrics: ", join(names, ", ")));
}

DeviceError out_of_memory(const BatchArithmetic& b, at::Device device) {
  const int64_t smaller = std::max<int64_t>(1, b.batch_size / 2);
  const int64_t accumulate = (b.global_batch + b.ranks * smaller - 1) / (b.ranks * smaller);
  return DeviceError(dtrain::str("out of memory on ", device, " with a micro-batch of ", b.batch_size,
                                 " samples (peak ", human_bytes(static_cast<double>(memory_peak(device))), " of ",
                                 human_bytes(static_cast<double>(device_info(device).memory_bytes)),
                                 "): use --batch-size ", smaller, " --accumulate ", accumulate,
                                 ", which trains with the same global batch of ", b.global_batch));
}

}  // namespace dtrain::train

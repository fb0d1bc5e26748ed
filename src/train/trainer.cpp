#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "dist/bytes.h"
#include "models/models.h"
#include "models/random_context.h"
#include "train/device.h"
#include "train/norm_buffers.h"
#include "train/schedule.h"

namespace dtrain::train {
namespace {

using monitoring::Phase;
using monitoring::StepStats;
using Clock = std::chrono::steady_clock;

// A run whose last steps were all skipped is not training any more.
constexpr int64_t kMostSkippedInARow = 50;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::vector<dist::NamedParameter> trainable(torch::nn::Module& model) {
  std::vector<dist::NamedParameter> parameters;
  for (const auto& parameter : model.named_parameters()) {
    if (parameter.value().requires_grad()) parameters.push_back({parameter.key(), parameter.value()});
  }
  return parameters;
}

// On the device without stopping the host: from pinned memory, which its allocator keeps until the copy is done.
at::Tensor ids_on(at::Device device, const std::vector<int64_t>& ids) {
  const auto options = at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda());
  const at::Tensor host = at::empty({static_cast<int64_t>(ids.size())}, options);
  std::copy(ids.begin(), ids.end(), host.mutable_data_ptr<int64_t>());
  return host.to(device, /*non_blocking=*/true);
}

// The optimizer takes the rate as a tensor: float64 on the CPU; on a GPU float32, filled by a kernel, not by a copy.
at::Tensor rate_tensor(double rate, at::Device device) {
  return at::full({}, rate, at::TensorOptions().device(device).dtype(device.is_cpu() ? at::kDouble : at::kFloat));
}

}  // namespace

Trainer::Trainer(Parts parts)
    : parts_(std::move(parts)),
      loader_(parts_.store, parts_.splits.train, parts_.task.samples(),
              {.batch_size = parts_.batches.batch_size,
               .global_batch = parts_.batches.global_batch,
               .seed = parts_.config.train.seed,
               .threads = parts_.loader_threads,
               .prefetch = static_cast<int>(parts_.config.data.prefetch),
               .verify = parts_.config.data.verify,
               .device = parts_.device},
              {parts_.host.rank(), parts_.host.size()}),
      scaler_(parts_.config.amp, needs_loss_scaling(parts_.precision), parts_.device,
              parameter_dtype(parts_.precision)),
      reducer_(trainable(parts_.task.model()), parts_.gradients, parts_.host,
               {.cap_bytes = static_cast<int64_t>(parts_.config.dist.bucket_mb * (1 << 20)),
                .first_bytes = static_cast<int64_t>(parts_.config.dist.first_bucket_mb * (1 << 20))}),
      optimizer_(parts_.config.optimizer, trainable(parts_.task.model())),
      clock_(parts_.device),
      agreement_(parts_.host),
      best_(std::numeric_limits<double>::quiet_NaN()),
      memory_total_(static_cast<double>(device_info(parts_.device).memory_bytes)) {
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
  const BatchArithmetic& batches = parts_.batches;
  const config::Checkpoint& policy = parts_.config.checkpoint;
  started_ = last_save_ = last_report_ = Clock::now();
  last_report_step_ = step_;
  first_step_ = skips_checked_at_ = step_;
  for (const auto& sink : parts_.sinks) sink->state("training");
  outcome_.reason = str("all ", batches.total_steps, " steps are done");

  bool wished_save = false;  // at the boundary before: granted at this one, so not wished again
  while (step_ < batches.total_steps) {
    StepStats stats = step();
    report(stats);

    const bool save_due = policy.every_minutes > 0 && parts_.host.rank() == 0 && !wished_save &&
                          seconds_between(last_save_, Clock::now()) >= policy.every_minutes * 60;
    const Wishes agreed = agreement_.exchange({.stop = parts_.stop_requested.load(), .save = save_due});
    wished_save = save_due;
    const bool last = step_ == batches.total_steps;
    if (agreed.stop && !last) {  // before an evaluation: who preempts does not wait for long
      save("asked to stop");
      outcome_.exit_code = kExitStoppedOnRequest;
      outcome_.reason =
          str("stopped on request at step ", step_, " of ", batches.total_steps, "; --resume auto continues");
      break;
    }
    const bool epoch_ends = step_ % batches.steps_per_epoch == 0;
    if (last || (epoch_ends && epoch_of(step_) % parts_.config.train.eval_every_epochs == 0)) evaluate_and_keep_best();
    if (last) {
      save("the end");
    } else if (agreed.save || (policy.every_steps > 0 && step_ % policy.every_steps == 0)) {
      save(agreed.save ? "by time" : "by steps");
    }
  }
  agreement_.settle();

  if (outcome_.exit_code == 0 && !parts_.splits.test.empty()) {
    const monitoring::EvalStats test = evaluate_split(parts_.splits.test, "test");
    outcome_.test = test.metrics;
    for (const auto& sink : parts_.sinks) sink->record(test);
  }
  clock_.synchronize();
  outcome_.ledger = global_ledger();
  outcome_.steps = step_;
  outcome_.own_steps = step_ - first_step_;
  outcome_.best = best_;
  outcome_.phases = clock_.totals();
  outcome_.seconds = seconds_between(started_, Clock::now());
  return outcome_;
}

// ---- one optimizer step -------------------------------------------------------------------------------------------
StepStats Trainer::step() {
  const auto begin = Clock::now();
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
    reducer_.arm(last, batch.samples() > 0);

    if (batch.samples() > 0) {
      parts_.progress("forward", step_);
      clock_.enter(Phase::kForward);
      to_precision(batch, parts_.precision);
      const models::RandomScope randomness({parts_.config.train.seed, step_, ids_on(parts_.device, batch.ids)});
      const tasks::Loss loss = [&] {
        const Autocast autocast(parts_.precision, parts_.device);
        return parts_.task.loss(batch);
      }();
      parts_.progress("backward", step_);
      clock_.enter(Phase::kBackward);
      reducer_.add_loss(loss.sum.detach(), loss.weight);
      scaler_.scale_loss(loss.sum, power).backward();
    }

    for (const int64_t id : batch.ids) ledger_.add(batch.epoch, id);
    samples_seen_ += batch.samples();
    stats.samples = batch.global_samples;
    ++stats.micro_steps;
  }

  parts_.progress("all_reduce", step_);
  clock_.enter(Phase::kAllReduceWait);
  reducer_.finish();

  parts_.progress("optimizer", step_);
  clock_.enter(Phase::kOptimizer);
  scaler_.unscale(reducer_.flat(), reducer_.weight_sum(), power);
  stats.learning_rate = learning_rate(parts_.config.schedule, parts_.config.optimizer.lr, step_,
                                      parts_.batches.total_steps, parts_.batches.steps_per_epoch);
  const double limit = parts_.config.optimizer.clip_norm;
  optimizer_.step(rate_tensor(stats.learning_rate, parts_.device),
                  limit > 0 ? clip_factor(scaler_.norm(), limit) : at::Tensor(), scaler_.found_inf());
  scaler_.update();
  stats.epoch = epoch_of(step_);
  ++step_;
  if (logs(step_)) {
    parts_.progress("all_reduce", step_);  // with NCCL it is here that the host waits for the other ranks
    stats.logging = true;
    const at::Tensor numbers =
        at::stack({reducer_.loss_sum().to(at::kDouble), reducer_.weight_sum().to(at::kDouble),
                   scaler_.norm().to(at::kDouble), scaler_.scale().to(at::kDouble), scaler_.skipped().to(at::kDouble)})
            .to(at::kCPU);  // the one synchronisation, on logging steps only
    const double* values = numbers.const_data_ptr<double>();
    stats.loss = values[0] / values[1];
    stats.grad_norm = values[2];
    if (scaler_.enabled()) stats.loss_scale = values[3];
    stats.skipped_total = static_cast<int64_t>(values[4]);
  }
  reducer_.zero();
  clock_.stop();
  clock_.drain();

  stats.step = step_;
  stats.bytes_reduced = reducer_.bytes_per_step();
  stats.step_seconds = seconds_between(begin, Clock::now());
  return stats;
}

bool Trainer::logs(int64_t step) const {
  return step == 1 || step % parts_.config.run.log_every == 0 || step == parts_.batches.total_steps ||
         step == first_step_ + 1;
}

// ---- what the world hears of it -----------------------------------------------------------------------------------
void Trainer::report(StepStats& stats) {
  stats.steps_per_epoch = parts_.batches.steps_per_epoch;
  stats.epochs = parts_.config.train.epochs;
  stats.total_steps = parts_.batches.total_steps;
  stats.loader_bytes = loader_.bytes_read() - std::exchange(loader_bytes_, loader_.bytes_read());
  stats.loader_queue = loader_.queue_depth();
  samples_since_report_ += stats.samples;

  if (stats.logging) {
    clock_.synchronize();
    const auto now = Clock::now();
    const auto steps = static_cast<double>(step_ - last_report_step_);
    const double interval = seconds_between(last_report_, now);
    for (size_t phase = 0; phase < monitoring::kPhases; ++phase) {
      stats.phase_seconds[phase] = (clock_.totals()[phase] - phases_at_report_[phase]) / steps;
    }
    stats.step_seconds = interval / steps;
    stats.samples_per_second = static_cast<double>(samples_since_report_) / interval;
    stats.eta_seconds = static_cast<double>(parts_.batches.total_steps - step_) * interval / steps;
    stats.memory_used = static_cast<double>(memory_used(parts_.device));
    stats.memory_total = memory_total_;
    stats.ledger = global_ledger();

    // Skips come in a row when the loss itself is not finite; then no smaller scale will help.
    const int64_t skipped_now = stats.skipped_total - skipped_;
    skipped_in_a_row_ = skipped_now == step_ - skips_checked_at_ ? skipped_in_a_row_ + skipped_now : 0;
    skipped_ = stats.skipped_total;
    skips_checked_at_ = step_;
    phases_at_report_ = clock_.totals();
    last_report_ = now;
    last_report_step_ = step_;
    samples_since_report_ = 0;
  }
  for (const auto& sink : parts_.sinks) sink->record(stats);
  // A short run ends before that many: what it would save as its end is no result either.
  const bool ends_without_loss =
      step_ == parts_.batches.total_steps && skipped_in_a_row_ > 0 && !std::isfinite(stats.loss);
  if (skipped_in_a_row_ >= kMostSkippedInARow || ends_without_loss) {
    throw NumericsError(str("the gradient was not finite in the last ", skipped_in_a_row_, " steps (loss ", stats.loss,
                            " at step ", step_,
                            "): use a smaller --lr, a warm-up (--schedule.warmup_steps) or --amp bf16"));
  }
}

uint64_t Trainer::global_ledger() {
  at::Tensor ledger = at::tensor({static_cast<int64_t>(ledger_.value())}, at::kLong);
  parts_.host.all_reduce(ledger, dist::ReduceOp::kSum).wait();
  return static_cast<uint64_t>(ledger.item<int64_t>());
}

monitoring::EvalStats Trainer::evaluate_split(const std::vector<int64_t>& ids, const char* split) {
  clock_.enter(Phase::kEval);
  monitoring::EvalStats stats;
  {
    const AveragedBuffers averaged(parts_.task.model(), parts_.host, samples_seen_);
    stats = evaluate(parts_.task, parts_.store, ids, split,
                     {parts_.batches.batch_size, parts_.loader_threads, static_cast<int>(parts_.config.data.prefetch),
                      parts_.config.data.verify, parts_.precision, parts_.device},
                     parts_.host, [this] { parts_.progress("eval", step_); })
                .stats;
  }
  clock_.stop();
  stats.step = step_;
  stats.epoch = std::max<int64_t>(0, epoch_of(step_ - 1));
  return stats;
}

void Trainer::evaluate_and_keep_best() {
  if (parts_.splits.val.empty()) return;
  for (const auto& sink : parts_.sinks) sink->state("evaluating");
  const monitoring::EvalStats stats = evaluate_split(parts_.splits.val, "val");
  set_train_mode();
  outcome_.validation = stats.metrics;
  for (const auto& sink : parts_.sinks) {
    sink->record(stats);
    sink->state("training");
  }
  const double value = metric(stats, parts_.task.metrics()[1].name);  // reduced: the same on every rank
  if (!std::isnan(value) && !(value >= best_)) {
    best_ = value;
    best_step_ = step_;
    if (parts_.config.checkpoint.keep_best) save("best so far");
  }
  // The next step line must not count the evaluation as training time.
  last_report_ = Clock::now();
  last_report_step_ = step_;
  samples_since_report_ = 0;
  clock_.synchronize();
  phases_at_report_ = clock_.totals();
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

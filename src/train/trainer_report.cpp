// What the world hears of a run: step lines, evaluations, and when the numbers are no numbers. Part of trainer.h.

#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "dist/object_collectives.h"
#include "train/device.h"
#include "train/norm_buffers.h"
#include "train/padding.h"
#include "train/trainer.h"

namespace dtrain::train {
namespace {

using monitoring::Phase;
using monitoring::StepStats;
using Clock = std::chrono::steady_clock;

// A run whose last steps were all skipped is not training any more.
constexpr int64_t kMostSkippedInARow = 50;

int64_t count_over_ranks(const std::set<int64_t>& own, dist::Communicator& host) {
  const std::vector<int64_t> ids = dist::all_gather_values(host, std::vector<int64_t>(own.begin(), own.end()));
  return static_cast<int64_t>(std::set<int64_t>(ids.begin(), ids.end()).size());
}

}  // namespace

void Trainer::report(StepStats& stats) {
  stats.steps_per_epoch = parts_.batches.steps_per_epoch;
  stats.epochs = parts_.config.train.epochs;
  stats.total_steps = parts_.batches.total_steps;
  stats.loader_bytes = loader_.bytes_read() - std::exchange(loader_bytes_, loader_.bytes_read());
  stats.loader_queue = loader_.queue_depth();
  samples_since_report_ += stats.samples;
  int64_t skipped_now = 0;

  if (stats.logging) {
    clock_.synchronize();
    const auto now = Clock::now();
    const auto steps = static_cast<double>(step_ - last_report_step_);
    const double interval = seconds_between(last_report_, now);
    for (size_t phase = 0; phase < monitoring::kPhases; ++phase) {
      stats.phase_seconds[phase] = (clock_.totals()[phase] - seconds_at_report_[phase]) / steps;
    }
    stats.step_seconds = interval / steps;
    stats.samples_per_second = static_cast<double>(samples_since_report_) / interval;
    stats.eta_seconds = static_cast<double>(parts_.batches.total_steps - step_) * interval / steps;
    stats.memory_used = static_cast<double>(memory_used(parts_.device));
    stats.memory_total = memory_total_;
    const Consumed before = std::exchange(consumed_, consumed_by_all());
    stats.ledger = consumed_.ledger;
    stats.bad_samples = consumed_.bad_samples;
    stats.padding_waste = padding_waste(consumed_.rows - before.rows, consumed_.cells - before.cells);

    skipped_now = stats.skipped_total - skipped_;
    skipped_in_a_row_ = skipped_now == step_ - skips_checked_at_ ? skipped_in_a_row_ + skipped_now : 0;
    skipped_ = stats.skipped_total;
    skips_checked_at_ = step_;
    seconds_at_report_ = clock_.totals();
    last_report_ = now;
    last_report_step_ = step_;
    samples_since_report_ = 0;
    log_pace_.done(now);
  }
  if (stats.logging) check_samples_are_left();
  for (const auto& sink : parts_.sinks) sink->record(stats);
  if (stats.logging) check_finite(stats, skipped_now);
}

void Trainer::check_losses() {
  const BadLosses::Found found = bad_losses_.gather(parts_.host);
  if (found.bad > 0) throw NumericsError(str(describe(found, parts_.store), " (seen by step ", step_, ")"));
}

void Trainer::check_finite(const StepStats& stats, int64_t skipped_now) {
  // Both are reduced values: all ranks come here, or none does.
  if (std::isfinite(stats.loss) && skipped_now == 0) return;
  check_losses();
  // A gradient alone that is not finite: fp16 finds its scale so. Skips come in a row when no smaller scale will help.
  // A short run ends before that many: what it would save as its end is no result either.
  const bool ends_without_loss =
      step_ == parts_.batches.total_steps && skipped_in_a_row_ > 0 && !std::isfinite(stats.loss);
  if (skipped_in_a_row_ >= kMostSkippedInARow || ends_without_loss) {
    throw NumericsError(str("the gradient was not finite in the last ", skipped_in_a_row_, " steps (loss ", stats.loss,
                            " at step ", step_,
                            "): use a smaller --lr, a warm-up (--schedule.warmup_steps) or --amp bf16"));
  }
}

Trainer::Consumed Trainer::consumed_by_all() {
  at::Tensor sums =
      at::tensor({static_cast<int64_t>(ledger_.value()), rows_, cells_, static_cast<int64_t>(loader_.bad_ids().size())},
                 at::kLong);
  parts_.host.all_reduce(sums, dist::ReduceOp::kSum).wait();
  const int64_t* values = sums.const_data_ptr<int64_t>();
  Consumed consumed{static_cast<uint64_t>(values[0]), values[1], values[2], values[3], consumed_.bad_samples};
  // A sample may have been left out by several ranks, in one epoch each.
  if (consumed.left_out != consumed_.left_out) consumed.bad_samples = count_over_ranks(loader_.bad_ids(), parts_.host);
  return consumed;
}

void Trainer::check_samples_are_left() const {
  const auto all = static_cast<int64_t>(parts_.splits.train.size());
  if (consumed_.bad_samples < all) return;
  throw DataError(str("all ", all, " training samples were left out (data.on_bad_sample: skip); why is said above"));
}

monitoring::EvalStats Trainer::evaluate_split(const std::vector<int64_t>& ids, const char* split) {
  clock_.enter(Phase::kEval);
  monitoring::EvalStats stats;
  {
    const WeightAverage::Scope weights(average_);
    parts_.progress("all_reduce", step_);
    const AveragedBuffers averaged(parts_.task.model(), parts_.host, samples_seen_);
    parts_.progress("eval", step_);
    stats = evaluate(parts_.task, parts_.store, ids, split,
                     {.batch_size = parts_.batches.batch_size,
                      .threads = parts_.loader_threads,
                      .prefetch = static_cast<int>(parts_.config.data.prefetch),
                      .verify = parts_.config.data.verify,
                      .skip_bad = parts_.config.data.skips_bad_samples(),
                      .precision = parts_.precision,
                      .device = parts_.device},
                     parts_.host, [this](const char* phase) { parts_.progress(phase, step_); })
                .stats;
  }
  clock_.stop();
  stats.step = step_;
  stats.epoch = std::max<int64_t>(0, epoch_of(step_ - 1));
  return stats;
}

bool Trainer::begins_phase() const {
  return step_ > 0 && step_ % parts_.batches.steps_per_epoch == 0 &&
         parts_.task.phase(epoch_of(step_)).name != parts_.task.phase(epoch_of(step_ - 1)).name;
}

void Trainer::watch(double value) {
  if (!phases_.current().moves(watched_.name)) return;  // it moves by chance: no best, no early stop, no smaller rate
  plateau_.update(value, watched_.higher_is_better, parts_.config.schedule);
  const bool best = watch_.update(value, step_, watched_.higher_is_better, parts_.config.train.min_delta);
  if (best && parts_.config.checkpoint.keep_best) {
    protect_best();
    save("best so far");
  }
}

void Trainer::evaluate_and_watch() {
  eval_pace_.done(Clock::now());
  evaluation_owed_ = false;
  if (parts_.splits.val.empty()) return;
  for (const auto& sink : parts_.sinks) sink->state("evaluating");
  const monitoring::EvalStats stats = evaluate_split(parts_.splits.val, "val");
  set_train_mode();
  outcome_.validation = stats.metrics;
  for (const auto& sink : parts_.sinks) {
    sink->record(stats);
    sink->state("training");
  }
  if (!stats.metrics.empty()) {
    watch(metric(stats, watched_.name));  // reduced: the same on every rank
  } else if (parts_.host.rank() == 0) {   // neither better nor worse
    log::warning("no sample of the validation split can be read: nothing was measured");
  }
  // The next step line must not count the evaluation as training time.
  last_report_ = Clock::now();
  last_report_step_ = step_;
  samples_since_report_ = 0;
  clock_.synchronize();
  seconds_at_report_ = clock_.totals();
}

}  // namespace dtrain::train

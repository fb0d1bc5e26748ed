// What a run reports (step lines and evaluations), and the checks of what it reports. Part
// of trainer.h.

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "device/device.h"
#include "diagnose/verdict.h"
#include "dist/agree.h"
#include "dist/device_wait.h"
#include "train/evaluate.h"
#include "train/loader_options.h"
#include "train/norm_buffers.h"
#include "train/precision.h"
#include "train/run_evidence.h"
#include "train/trainer.h"

namespace dtrain::train {
namespace {

using measure::Phase;
using measure::Quantity;
using monitoring::StepStats;
using SteadyClock = std::chrono::steady_clock;

// A run whose last steps were all skipped no longer trains.
constexpr int64_t kMostSkippedInARow = 50;

// The step in which the warm-up is over: a step ends where the next one begins. What is measured
// from here on is not mixed with the warm-up, however seldom the run logs.
constexpr auto kWarmedUp = static_cast<int64_t>(measure::RunMeasurements::kWarmUpSteps) + 1;

}  // namespace

void Trainer::report(StepStats& stats) {
  stats.steps_per_epoch = context_.batches.steps_per_epoch;
  stats.epochs = context_.config.train.epochs;
  stats.total_steps = context_.batches.total_steps;
  stats.loader_queue = loader_.queue_depth();
  window_.add(stats, loader_.bytes_read());
  int64_t skipped_now = 0;

  if (stats.logging) {
    PhaseClock& clock = tracker_.clock();
    clock.synchronize();
    const auto now = SteadyClock::now();
    window_.summarize(stats, now, clock.totals());
    const device::MemoryUse memory = device::memory_use(context_.device);
    stats.memory_used = static_cast<double>(memory.allocated);
    stats.memory_total = static_cast<double>(device_.memory_bytes);
    stats.memory_reserved = static_cast<double>(memory.reserved);
    stats.memory_peak = static_cast<double>(memory.peak);
    stats.allocator_retries = memory.retries;
    stats.out_of_memory = memory.failures;
    stats.collectives = collectives();
    const Consumption::Report consumed = consumption_.report(context_.host, loader_.bad_ids());
    stats.ledger = consumed.totals.ledger;
    stats.bad_samples = consumed.totals.bad_samples;
    stats.padding_waste = consumed.padding_waste;
    of_run_.set({{Quantity::kAllocatorRetries, static_cast<double>(stats.allocator_retries)},
                 {Quantity::kGpuMemoryPeak, stats.memory_peak},
                 {Quantity::kSkippedSteps, static_cast<double>(stats.skipped_total)},
                 {Quantity::kLossScale, stats.loss_scale}});
    measure::RankSample used = used_resources();
    used.values.set({{Quantity::kMemory, stats.memory_used},
                     {Quantity::kQueue, window_.mean_queue(stats) /
                                            static_cast<double>(context_.config.data.prefetch)}});
    gather_measurements(used);
    stats.ranks = measurements_.last();
    stats.own = measurements_.own();
    stats.slowest = measurements_.slowest(step_ - 1);  // this one ends where the next one begins
    skipped_now = skipped_.update(stats.skipped_total, step_);
    window_.begin(step_, now, clock.totals());
    triggers_.log.restart();
    check_samples_are_left(stats.bad_samples);
  } else if (result_.own_steps == kWarmedUp) {
    tracker_
        .wait_for_others();  // as read_device(): with NCCL the host waits for the other ranks here
    dist::wait_for_device(context_.device, {&context_.gradients, context_.statistics});
    tracker_.clock().synchronize();
    gather_measurements(used_resources());
    stats.own = measurements_.own();
  }
  for (const auto& sink : context_.sinks) sink->record(stats);
  if (!stats.logging) return;
  judge_so_far();
  check_finite(stats, skipped_now);
  check_run_folder();
}

void Trainer::gather_measurements(const measure::RankSample& used, bool of_steps_alone) {
  measurements_.gather(tracker_.clock().take_steps(), used, of_steps_alone);
}

measure::RankSample Trainer::used_resources() {
  measure::RankSample used = meter_.sample(loader_.stats());
  if (context_.take_gpu_use) used.values.set(context_.take_gpu_use());
  used.values.set(of_run_);
  used.values.set({{Quantity::kHostCores, context_.host_cores},
                   {Quantity::kLoaderThreads, context_.loader_threads},
                   {Quantity::kComputeThreads, at::get_num_threads()},
                   {Quantity::kGpuCapability, device_.capability}});
  if (context_.device.is_cuda())
    used.values[Quantity::kGpuMemory] = static_cast<double>(device_.memory_bytes);
  const size_t ended = tracker_.clock().ended_steps();
  used.steps = static_cast<double>(ended - std::exchange(steps_of_resources_, ended));
  return used;
}

void Trainer::judge_so_far() {
  constexpr auto kInterval = std::chrono::minutes(1);
  if (context_.host.rank() != 0) return;
  const bool asked = agreement_.granted().verdict;
  const bool enough = measurements_.steps()[0].size() >= diagnose::kFewestSteps;
  const auto now = context_.clock.now();
  if (!asked && (!enough || now < next_verdict_)) return;
  next_verdict_ = now + kInterval;
  const diagnose::Verdict verdict = diagnose::judge(evidence());
  if (asked) log::plain(diagnose::text_of(verdict));
  for (const auto& sink : context_.sinks) sink->verdict(diagnose::record_of(verdict, step_));
}

diagnose::RunEvidence Trainer::evidence() {
  diagnose::RunEvidence run = evidence_of(context_, measurements_, nodes_, step_);
  if (run.ranks.empty()) return run;
  run.cached_step = cached_step_for(headroom_, run.ranks[0].steps, context_.batches);
  run.ended_steps = static_cast<double>(result_.own_steps);
  run.evaluations = evaluations_;
  run.saves = saves_;
  run.saves_of_best = saves_of_best_;
  run.network =
      network_use(phases_.reducer(), all_reduce_cost_, context_.config.dist.first_bucket_mb);
  return run;
}

void Trainer::check_run_folder() {
  if (context_.config.run.name.empty()) return;
  dist::agree_on_rank0(context_.host, [&] {
    if (context_.check_run_folder) context_.check_run_folder();
  });
}

void Trainer::say_what_was_compared() const {
  const data::LoaderStats stats = loader_.stats();
  if (context_.host.rank() != 0 || stats.not_compared == 0) return;
  const int64_t percent = 100 * stats.compared / (stats.compared + stats.not_compared);
  log::info(str("about ", percent, " % of the samples of epoch ", context_.verified_epoch + 1,
                " were compared with their checksums, in 1 % of the readers' time; --data.verify "
                "true compares all, and ",
                "so does `dtrain inspect --verify`"));
}

// Every kind of operation that has run.
std::vector<monitoring::CollectiveStats> Trainer::collectives() const {
  std::vector<monitoring::CollectiveStats> all;
  const auto add = [&all](const char* name, dist::Communicator* communicator,
                          const dist::Traffic& before) {
    if (communicator == nullptr) return;
    const dist::Traffic traffic = communicator->traffic();
    for (size_t i = 0; i < traffic.size(); ++i) {
      const int64_t bytes = traffic[i].bytes - before[i].bytes;
      const double seconds = traffic[i].seconds - before[i].seconds;
      if (bytes == 0 && seconds == 0) continue;
      all.push_back({name, dist::kCollectiveNames[i], static_cast<double>(bytes), seconds});
    }
  };
  add("gradients", &context_.gradients, gradients_before_);
  add("statistics", context_.statistics, statistics_before_);
  add("host", &context_.host, {});
  return all;
}

void Trainer::check_samples_are_left(int64_t bad_samples) const {
  const auto all = static_cast<int64_t>(context_.splits.train.size());
  if (bad_samples < all) return;
  throw DataError(str(
      "all ", all,
      " training samples were left out (data.on_bad_sample: skip); the warnings above say why"));
}

void Trainer::check_losses() {
  const BadLosses::Found found = bad_losses_.gather(context_.host);
  if (found.bad == 0) return;
  const std::string against =
      against_overflow(context_.precision, context_.device.type(), device_.capability);
  throw NumericsError(str(describe(found, context_.store, against), " (seen by step ", step_, ")"));
}

void Trainer::check_finite(const StepStats& stats, int64_t skipped_now) {
  // Both are reduced values, so all ranks continue here or none does.
  if (std::isfinite(stats.loss) && skipped_now == 0) return;
  check_losses();
  // Some gradients that are not finite are normal: that is how fp16 finds its scale. Many in a row
  // mean that no smaller scale helps. A short run may end before that many; without a finite loss
  // its end is no result either.
  const int64_t skipped = skipped_.in_a_row();
  const bool ends_without_loss =
      step_ == context_.batches.total_steps && skipped > 0 && !std::isfinite(stats.loss);
  if (skipped >= kMostSkippedInARow || ends_without_loss) {
    throw NumericsError(
        str("the gradient was not finite in the last ", skipped, " steps (loss ", stats.loss,
            " at step ", step_, "): use a smaller --lr, a warm-up (--schedule.warmup_steps) or ",
            against_overflow(context_.precision, context_.device.type(), device_.capability)));
  }
}

void Trainer::set_state(monitoring::RunState state) {
  for (const auto& sink : context_.sinks) sink->state(state);
}

bool Trainer::evaluate_and_watch() {
  triggers_.evaluate.restart();
  if (context_.splits.val.empty()) {
    watched_.evaluation_owed = false;
    return true;
  }
  set_state(monitoring::RunState::kEvaluating);
  const std::optional<monitoring::EvalStats> evaluated = evaluate_split(context_.splits.val, "val");
  set_train_mode();
  if (!evaluated) return false;
  const monitoring::EvalStats& stats = *evaluated;
  watched_.evaluation_owed = false;
  result_.validation = stats.metrics;
  evaluated_step_ = step_;
  evaluations_.add(stats.seconds);
  for (const auto& sink : context_.sinks) {
    sink->record(stats);
    sink->state(monitoring::RunState::kTraining);
  }
  if (!stats.metrics.empty()) {
    watch(metric(stats, watched_.metric.name));  // reduced: the same on every rank
  } else if (context_.host.rank() == 0) {        // neither better nor worse
    log::warning("no sample of the validation split can be read: nothing was measured");
  }
  const auto now = SteadyClock::now();
  tracker_.clock().synchronize();
  window_.begin(step_, now, tracker_.clock().totals());
  return true;
}

bool Trainer::test() {
  if (context_.splits.test.empty()) return true;
  set_state(monitoring::RunState::kEvaluating);
  const std::optional<monitoring::EvalStats> stats = evaluate_split(context_.splits.test, "test");
  for (const auto& sink : context_.sinks) {
    if (stats) sink->record(*stats);
    sink->state(monitoring::RunState::kTraining);
  }
  return stats.has_value();
}

std::optional<monitoring::EvalStats> Trainer::evaluate_split(const std::vector<int64_t>& ids,
                                                             const char* split) {
  tracker_.enter(Phase::kEval);
  StepAgreement agreement(
      context_.host);  // not that of the steps, whose requests are granted at the next step
  const auto stop = [&] {
    tracker_.wait_for_others();
    const bool stops = agreement.exchange({.stop = context_.stop_requested.load()}).stop;
    tracker_.proceed();
    return stops;
  };
  Evaluation evaluation;
  const bool first = step_ <= verified_until() || &ids == &context_.splits.test;
  {
    const WeightAverage::Scope weights(average_);
    tracker_.wait_for_others();
    const AveragedBuffers averaged(context_.task.model(), context_.host,
                                   consumption_.samples_seen());
    tracker_.proceed();
    evaluation = evaluate(context_.task, context_.store, ids, split,
                          {.batch_size = context_.batches.batch_size,
                           .threads = context_.loader_threads,
                           .prefetch = static_cast<int>(context_.config.data.prefetch),
                           .verify = verify_of(context_.config.data, first),
                           .skip_bad = context_.config.data.skips_bad_samples(),
                           .precision = context_.precision,
                           .device = context_.device,
                           .report =
                               [this](const Progress& progress) {
                                 for (const auto& sink : context_.sinks) sink->progress(progress);
                               },
                           .stage = split,
                           .stop = stop},
                          context_.host, &tracker_);
  }
  tracker_.wait_for_others();
  agreement.settle();
  tracker_.leave();
  if (evaluation.stopped) return std::nullopt;
  evaluation.stats.step = step_;
  evaluation.stats.epoch = std::max<int64_t>(0, epoch_of(step_ - 1));
  return evaluation.stats;
}

void Trainer::watch(double value) {
  const tasks::MetricSpec& metric = watched_.metric;
  // Where training does not move the metric, it changes by chance: no best, no early stop, no
  // smaller rate.
  if (!phases_.current().moves(metric.name)) return;
  watched_.plateau.update(value, metric.higher_is_better, context_.config.schedule);
  const bool best =
      watched_.watch.update(value, step_, metric.higher_is_better, context_.config.train.min_delta);
  if (best && context_.config.checkpoint.keep_best) {
    protect_best();
    save("best so far");
  }
}

}  // namespace dtrain::train

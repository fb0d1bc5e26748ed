#include "train/trainer.h"

#include <algorithm>

#include "core/check.h"
#include "core/clock.h"
#include "dist/failure.h"
#include "text/strings.h"
#include "train/device_failure.h"

namespace dtrain::train {
namespace {

IntervalTrigger trigger(const config::Interval& interval, const TrainContext& context) {
  return {interval, context.batches.steps_per_epoch, context.clock,
          /*keeps_time=*/context.host.rank() == 0};
}

}  // namespace

Trainer::Trainer(TrainContext context)
    : steps_(std::move(context)),
      context_(steps_.context()),
      observer_(steps_),
      agreement_(context_.host),
      triggers_{trigger(context_.config.checkpoint.every, context_),
                trigger(context_.config.train.eval_every, context_),
                trigger(context_.config.run.log_every, context_)},
      watched_{.metric = watched_metric(context_.task, context_.config.train.metric),
               .watch = {},
               .plateau = {}} {
  DTRAIN_CHECK(
      context_.checkpoints || context_.host.rank() != 0 || context_.config.run.name.empty(),
      "run '", context_.config.run.name, "' has no folder for its checkpoints");
}

TrainResult Trainer::run() {
  try {
    return train();
  } catch (const c10::Error& e) {
    throw_device_failure(e, context_, steps_.where());
    if (!steps_.left_alone().empty()) {
      throw DataError(
          str("the network cannot train on the one sample that is left of a micro-batch, ",
              steps_.where(), ": ", dist::first_line(e),
              ". Repair the data, use a larger --batch-size, or a network without ",
              "batch norm. Left out: ", steps_.left_alone()));
    }
    throw;
  }
}

// ---- the run ------------------------------------------------------------------------------------
TrainResult Trainer::train() {
  begin();
  if (watched_.evaluation_owed && !make_up_evaluation()) stop_on_request();
  // A resumed run may have no step left, only its test.
  steps_.enter_phase_of(
      steps_.epoch_of(std::min(steps_.steps(), context_.batches.total_steps - 1)));
  if (context_.branches) save("branched off");
  while (result_.exit_code == 0 && steps_.steps() < context_.batches.total_steps &&
         !stops_early()) {
    enter_task_phase();
    steps_.set_rate_factor(watched_.plateau.factor);
    monitoring::StepStats stats = steps_.step(logs_next_step());
    if (stats.logging) triggers_.log.restart();
    observer_.report(stats, agreement_.granted().verdict);

    const Requests requests = exchange_requests();
    const bool last = steps_.steps() == context_.batches.total_steps;
    if (last || steps_.steps() % context_.batches.steps_per_epoch == 0)
      context_.store.origin().check_unchanged();
    if (steps_.steps() == verified_until()) observer_.say_what_was_compared();
    watched_.evaluation_owed = last || requests.evaluate || triggers_.evaluate.due(steps_.steps());
    // Also before and in an evaluation, which may take long: the resumed run makes it up.
    if ((requests.stop && !last) || (watched_.evaluation_owed && !evaluate_and_watch())) {
      stop_on_request();
    } else if (last || stops_early()) {
      save("the end");
    } else if (requests.save) {
      save("by time");
    } else if (triggers_.save.due(steps_.steps())) {
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
  steps_.tracker().set_step(steps_.steps());
  observer_.begin();
  steps_.tracker().wait_for_others();
  // The first step answers what was asked before it.
  agreement_.exchange_now({.verdict = take_verdict_request()});
  started_ = std::chrono::steady_clock::now();
  for (IntervalTrigger* trigger : {&triggers_.save, &triggers_.evaluate, &triggers_.log})
    trigger->restart();
  observer_.begin_training();
}

// The phase of the next step. Patience starts again with each phase.
void Trainer::enter_task_phase() {
  const int64_t step = steps_.steps(), epoch = steps_.epoch_of(step);
  steps_.enter_phase();
  if (step == 0 || step % context_.batches.steps_per_epoch != 0) return;
  if (context_.task.phase(epoch).name == context_.task.phase(epoch - 1).name) return;
  watched_.watch.evaluations_without_improvement =
      watched_.plateau.evaluations_without_improvement = 0;
  if (steps_.own_steps() > 0) observer_.forget_headroom();
}

bool Trainer::logs_next_step() const {
  const int64_t next = steps_.steps() + 1;
  return steps_.own_steps() == 0 || observer_.wants_to_log_next() || agreement_.granted().log ||
         agreement_.granted().verdict || steps_.logs(next);
}

Requests Trainer::exchange_requests() {
  steps_.tracker().wait_for_others();
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
    return str("stopped on request at step ", steps_.steps(), " of ", total,
               steps_.steps() == total ? ", before its last evaluation" : "",
               "; --resume auto continues");
  }
  if (stops_early()) {
    const MetricWatch& watch = watched_.watch;
    return str(watch.evaluations_without_improvement, " evaluations without a better ",
               watched_.metric.name, " (best ", fixed(watch.best, 4), " at step ", watch.best_step,
               "), at step ", steps_.steps(), " of ", total);
  }
  return total == 1 ? "the 1 step is done" : str("all ", total, " steps are done");
}

TrainResult Trainer::conclude() {
  if (steps_.steps() < verified_until()) observer_.say_what_was_compared();
  const Consumption::Totals consumed =
      steps_.consumption().totals(context_.host, steps_.loader().bad_ids());
  result_.reason = reason_to_stop();
  result_.steps = steps_.steps();
  result_.own_steps = steps_.own_steps();
  result_.ledger = consumed.ledger;
  result_.bad_samples = consumed.bad_samples;
  result_.padding_waste = padding_waste(consumed.rows, consumed.cells);
  result_.metric = watched_.metric.name;
  result_.best = watched_.watch.best;
  result_.evidence = observer_.conclude();
  result_.seconds = seconds_since(started_);
  return result_;
}

}  // namespace dtrain::train

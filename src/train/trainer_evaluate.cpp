// Evaluations of a run, and what they decide. Part of trainer.h.

#include <algorithm>

#include "core/log.h"
#include "train/evaluate.h"
#include "train/loader_options.h"
#include "train/norm_buffers.h"
#include "train/trainer.h"

namespace dtrain::train {

using measure::Phase;

bool Trainer::make_up_evaluation() {
  steps_.enter_phase_of(steps_.epoch_of(steps_.steps() - 1));
  saved_step_ = -1;  // the checkpoint of this step lacks what the evaluation finds
  if (!evaluate_and_watch()) return false;
  if (steps_.steps() == context_.batches.total_steps || stops_early()) save("the end");
  return true;
}

bool Trainer::evaluate_and_watch() {
  triggers_.evaluate.restart();
  if (context_.splits.val.empty()) {
    watched_.evaluation_owed = false;
    return true;
  }
  observer_.set_state(monitoring::LiveState::kEvaluating);
  const std::optional<monitoring::EvalStats> evaluated = evaluate_split(context_.splits.val, "val");
  steps_.set_train_mode();
  if (!evaluated) return false;
  const monitoring::EvalStats& stats = *evaluated;
  watched_.evaluation_owed = false;
  result_.validation = stats.metrics;
  watched_.evaluated_step = steps_.steps();
  observer_.evaluated(stats);
  if (!stats.metrics.empty()) {
    watch(metric(stats, watched_.metric.name));  // reduced: the same on every rank
  } else if (context_.host.rank() == 0) {        // neither better nor worse
    log::warning("no sample of the validation split can be read: nothing was measured");
  }
  observer_.begin_window();
  return true;
}

bool Trainer::test() {
  if (context_.splits.test.empty()) return true;
  observer_.set_state(monitoring::LiveState::kEvaluating);
  const std::optional<monitoring::EvalStats> stats = evaluate_split(context_.splits.test, "test");
  for (const auto& sink : context_.sinks) {
    if (stats) sink->record(*stats);
    sink->state(monitoring::LiveState::kTraining);
  }
  return stats.has_value();
}

std::optional<monitoring::EvalStats> Trainer::evaluate_split(const std::vector<int64_t>& ids,
                                                             const char* split) {
  steps_.tracker().enter(Phase::kEval);
  // Not that of the steps, whose requests are granted at the next step
  StepAgreement agreement(context_.host);
  const auto stop = [&] {
    steps_.tracker().wait_for_others();
    const bool stops = agreement.exchange({.stop = context_.stop_requested.load()}).stop;
    steps_.tracker().proceed();
    return stops;
  };
  Evaluation evaluation;
  const bool first = steps_.steps() <= verified_until() || &ids == &context_.splits.test;
  {
    const WeightAverage::Scope weights(steps_.average());
    steps_.tracker().wait_for_others();
    const AveragedBuffers averaged(context_.task.model(), context_.host,
                                   steps_.consumption().samples_seen());
    steps_.tracker().proceed();
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
                          context_.host, &steps_.tracker());
  }
  steps_.tracker().wait_for_others();
  agreement.settle();
  steps_.tracker().leave();
  if (evaluation.stopped) return std::nullopt;
  evaluation.stats.step = steps_.steps();
  evaluation.stats.epoch = std::max<int64_t>(0, steps_.epoch_of(steps_.steps() - 1));
  return evaluation.stats;
}

void Trainer::watch(double value) {
  const tasks::MetricSpec& metric = watched_.metric;
  // Where training does not move the metric, it changes by chance: no best, no early stop, no
  // smaller rate.
  if (!steps_.phases().current().moves(metric.name)) return;
  watched_.plateau.update(value, metric.higher_is_better, context_.config.schedule);
  const bool best = watched_.watch.update(value, steps_.steps(), metric.higher_is_better,
                                          context_.config.train.min_delta);
  if (best && context_.config.checkpoint.keep_best) {
    protect_best();
    save("best so far");
  }
}

}  // namespace dtrain::train

// What a step does besides forward and backward, and work that is done for nothing.

#include <algorithm>
#include <cmath>
#include <utility>

#include "catalog/gpus.h"
#include "diagnose/communication.h"
#include "diagnose/find_causes.h"
#include "diagnose/means.h"
#include "text/strings.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;
using measure::StepTimes;

// What an evaluation or a checkpoint may cost, as a share of the time.
constexpr double kSmallCost = 0.01;
// A batch of so few samples keeps neither vector units nor threads of a CPU busy.
constexpr int64_t kFewSamples = 4;
constexpr int64_t kMostTimesLarger = 16;

const Steps& longest(const RunEvidence& run, Phase phase) {
  return run.ranks[worst_rank(run, phase)].steps;
}

// How many times rarer something has to be to cost a small share of the other time.
double times_rarer(double seconds, double others) {
  return std::ceil(seconds / (kSmallCost * others));
}

// What is done after some steps, such as saving a checkpoint.
struct Rare {
  double each = 0;      // seconds
  double per_step = 0;  // how often: as planned, or as it came
  // Seconds of it in the mean of the measured steps; 0: it follows none of them
  double measured = 0;

  double seconds() const { return each * per_step; }  // per step
  bool missing() const { return measured <= 0; }      // from the measured steps
  // Their mean, as it would be if they had as many as are planned.
  double step(const Steps& steps) const { return mean_wall(steps) - measured + seconds(); }
  double rarer(const Steps& steps) const {
    return std::max(1.0, times_rarer(seconds(), mean_wall(steps) - measured));
  }
  // `part` is what is left of it.
  WhatIf replay(Phase phase, double part, Change change) const {
    return {.change = std::move(change),
            .planned = phase,
            .planned_per_step = per_step,
            .event = missing() ? each : 0,
            .event_without = missing() ? part * each : 0};
  }
};

// Those of the measured steps that `follows` is true for. `planned` 0: as often as they came. The
// steps that a long run keeps may have none, so that those before them count.
template <typename Follows>
Rare rare_of(const RunEvidence& run, Phase phase, const RareEvents& all, double planned,
             const Follows& follows) {
  const Steps& steps = longest(run, phase);
  double seconds = 0, count = 0;
  for (const StepTimes& s : steps) {
    if (!(s.of(phase) > 0) || !follows(s)) continue;
    seconds += s.of(phase);
    ++count;
  }
  const auto of = static_cast<double>(steps.size());
  if (count > 0) {
    return {.each = seconds / count,
            .per_step = planned > 0 ? planned : count / of,
            .measured = seconds / of};
  }
  if (all.count == 0 || !(run.ended_steps > 0)) return {};
  return {.each = all.each(),
          .per_step = planned > 0 ? planned : static_cast<double>(all.count) / run.ended_steps};
}

// The best checkpoint so far is saved after an evaluation, whatever checkpoint.every is. What is
// saved in other steps comes by that interval.
void add_checkpoints(const RunEvidence& run, Findings& found) {
  const bool by_steps = run.settings.saves_by_steps;
  const auto is_best = [keeps = run.settings.keeps_best](const StepTimes& s) {
    return keeps && s.of(Phase::kEval) > 0;
  };
  const Rare of_best = rare_of(run, Phase::kCheckpoint, run.saves_of_best, 0, is_best);
  const Rare by_interval =
      rare_of(run, Phase::kCheckpoint, run.saves, by_steps ? run.settings.checkpoints : 0,
              [&](const StepTimes& s) { return !is_best(s); });
  const bool best = of_best.seconds() > by_interval.seconds();
  const Rare& saves = best ? of_best : by_interval;
  if (saves.seconds() <= 0) return;
  const Steps& steps = longest(run, Phase::kCheckpoint);
  const double rarer = saves.rarer(steps);
  const std::string every =
      str("--checkpoint.every ", fixed(std::ceil(rarer / saves.per_step), 0), "steps");
  // By steps: after the same evaluations, it may be
  const double part = best && !by_steps ? 0 : 1 / rarer;
  const auto without = [=](size_t, size_t, StepTimes& s) {
    if (is_best(s) == best) s.of(Phase::kCheckpoint) *= part;
  };
  WhatIf replay = saves.replay(Phase::kCheckpoint, part, without);
  if (!best && !saves.missing() && !(run.settings.checkpoints > 0))
    replay.planned_per_step = 0;  // they were not planned
  found.push_back(
      {.cause = Cause::kCheckpoint,
       .evidence = str(of_step(saves.seconds(), saves.step(steps)),
                       best ? " saving the best so far" : " saving"),
       .setting = best ? str("--checkpoint.keep_best false", by_steps ? " " + every : "") : every,
       .without = std::move(replay)});
}

void add_evaluations(const RunEvidence& run, Findings& found) {
  const auto each = [](const StepTimes&) { return true; };
  const Rare evaluations =
      rare_of(run, Phase::kEval, run.evaluations, run.settings.evaluations, each);
  if (evaluations.seconds() <= 0) return;
  const double per_step = evaluations.per_step, per_epoch = per_step * run.settings.steps_per_epoch;
  const Steps& steps = longest(run, Phase::kEval);
  // Whole epochs, so that the evaluations of different runs compare.
  const double epochs = std::max(1.0, std::ceil(evaluations.rarer(steps) / per_epoch));
  // That at the end of the run stays in any case.
  const double total =
      std::isfinite(run.total_steps()) ? std::max(1.0, per_step * run.total_steps()) : kUnknown;
  const double part = std::min(1.0, std::fmax(1 / (epochs * per_epoch), 1 / total));
  found.push_back(
      {.cause = Cause::kEvaluation,
       .evidence = str(of_step(evaluations.seconds(), evaluations.step(steps)), " evaluating"),
       .setting = str("--train.eval_every ", fixed(epochs, 0), epochs > 1 ? "epochs" : "epoch"),
       .without = evaluations.replay(Phase::kEval, part, times(Phase::kEval, part))});
}

// ---- small batches ------------------------------------------------------------------------------

// The same samples in steps of `larger` times as many: what is done once per step costs that much
// less, and forward and backward take `computing` of their time.
WhatIf in_larger_batches(int64_t larger, double computing) {
  const auto change = [part = 1.0 / static_cast<double>(larger), computing](size_t, size_t,
                                                                            StepTimes& s) {
    s.wall -= (1 - part) * std::max(0.0, s.other());
    s.of(Phase::kOptimizer) *= part;
    s.of(Phase::kForward) *= computing;
    s.of(Phase::kBackward) *= computing;
  };
  return {.change = change, .network = 1.0 / static_cast<double>(larger)};
}

// A given global batch would stay as it is, and with it the number of steps.
std::string larger_batch(const RunSettings& settings, int64_t times) {
  return str("--batch-size ", times * settings.batch_size,
             settings.global_batch > 0
                 ? str(" --train.global_batch ", times * settings.global_batch)
                 : "");
}

void add_small_batch(const RunEvidence& run, Findings& found) {
  constexpr double kMuch = 0.2;
  if (run.settings.gpu || run.settings.batch_size > kFewSamples) return;
  const Steps& steps = run.ranks[0].steps;
  const double network = communication_of(run).network();
  const double once =
      mean_of(steps, Phase::kOptimizer) + std::max(0.0, mean_other(steps)) + network;
  int64_t larger = 2;
  while (larger < kMostTimesLarger &&
         once / static_cast<double>(larger) > 0.05 * mean_computing(steps))
    larger *= 2;
  found.push_back(
      {.cause = Cause::kSmallBatch,
       .evidence =
           str(of_step(once, mean_wall(steps)), " are the same for any batch size (now ",
               run.settings.batch_size, run.settings.batch_size == 1 ? " sample)" : " samples)",
               network > kMuch * once
                   ? str(", ", fixed(100 * network / once, 0), " % of them communication")
                   : ""),
       .setting = larger_batch(run.settings, larger),
       .otherwise = str("or more, as a larger batch is also computed faster ", kLargerGlobalBatch),
       .without = in_larger_batches(larger, 1)});
}

// A GPU that finishes kernels as fast as the host launches them is idle between them. A larger
// batch has as many kernels, which take longer. The ranks run the same kernels, so the one that
// computes longest speaks for all.
void add_launches(const RunEvidence& run, Findings& found) {
  // Launching takes this share of forward and backward: the host does not run ahead
  constexpr double kAsLong = 0.9;
  const RankEvidence& rank = run.ranks[longest_computing(run)];
  const double computing = mean_computing(rank.steps), wall = mean_wall(rank.steps),
               launching = mean_launch(rank.steps);
  if (!(launching > kAsLong * computing) || computing <= 0 ||
      !rank.values.knows(Quantity::kGpuUtilization))
    return;
  double waits = mean_other(rank.steps);
  for (const Phase phase : {Phase::kDataWait, Phase::kCheckpoint, Phase::kEval})
    waits += mean_of(rank.steps, phase);
  const double idle = std::clamp(
      ((1 - rank.values[Quantity::kGpuUtilization]) * wall - waits) / computing, 0.0, 1.0);
  if (idle < kLeastGain)
    return;  // CUDA takes about a thousand kernels ahead: then it is the host that waits
  int64_t larger = 2;
  while (larger < kMostTimesLarger && 1.0 / static_cast<double>(larger) > 1 - idle) larger *= 2;
  found.push_back(
      {.cause = Cause::kSmallBatch,
       .evidence = str(of_step(launching, wall), " launching kernels, the GPU idle in ",
                       percent(idle), " of forward and backward"),
       .setting = larger_batch(run.settings, larger),
       .otherwise = str(kLargerGlobalBatch, run.settings.can_use_graphs
                                                ? ", or --train.cuda_graph true with the same batch"
                                                : ""),
       .without =
           in_larger_batches(larger, std::max(1.0 / static_cast<double>(larger), 1 - idle))});
}

// ---- wasted work --------------------------------------------------------------------------------

// Computing padding takes no longer than computing as many rows with values, and a network may skip
// some of it (packed sequences), so between nothing and that: the gain is that of the middle. (How
// the time of steps follows their padding does not help: batches of like lengths also need fewer
// recurrent steps, and that does not follow the padding.)
void add_padding(const RunEvidence& run, Findings& found) {
  measure::PaddedRows padded;
  double computing = 0, step = 0;
  for (const RankEvidence& rank : run.ranks) {
    for (const StepTimes& s : rank.steps) padded += s.padded;
    computing = std::max(computing, mean_computing(rank.steps));
    step = std::max(step, mean_wall(rank.steps));
  }
  if (!(padded.rows < padded.cells)) return;
  // Batches are cut from that many global batches, sorted by length: of twice as many, half as
  // different. An epoch is the limit.
  const int64_t window = std::max<int64_t>(1, run.settings.length_window);
  const auto most = static_cast<int64_t>(std::ceil(run.settings.steps_per_epoch));
  const int64_t wider = std::min(std::max<int64_t>(32, 2 * window), most);
  if (wider <= window) return;
  const double fewer = 1 - static_cast<double>(window) / static_cast<double>(wider);
  const auto without = [fewer](size_t, size_t, StepTimes& s) {
    if (!(s.padded.cells > 0)) return;
    const double left = 1 - fewer * 0.5 * (1 - s.padded.rows / s.padded.cells);
    s.of(Phase::kForward) *= left;
    s.of(Phase::kBackward) *= left;
  };
  const double waste = 1 - padded.rows / padded.cells;
  found.push_back({.cause = Cause::kPadding,
                   .evidence = str(percent(waste), " of the rows are padding, which takes up to ",
                                   of_step(waste * computing, step)),
                   .setting = str("--data.length_window ", wider),
                   .otherwise = run.settings.length_classes > 0 ? "or --data.length_classes 0" : "",
                   .without = WhatIf{.change = without}});
}

// A step whose gradients overflow takes its time and changes nothing.
void add_loss_scale(const RunEvidence& run, Findings& found) {
  const double scale = run.ranks[0].values[Quantity::kLossScale],
               skipped = run.ranks[0].values.or_zero(Quantity::kSkippedSteps);
  // Without a scale, gradients that are not finite have another reason.
  if (!std::isfinite(scale)) return;
  const bool bf16 = std::ranges::all_of(run.ranks, [](const RankEvidence& rank) {
    return catalog::has_bf16(static_cast<int>(rank.values.or_zero(Quantity::kGpuCapability)));
  });
  Finding finding{
      .cause = Cause::kLossScale,
      .setting = bf16 ? "--amp bf16" : "",
      .otherwise = bf16 ? "or a lower --lr" : "with a lower --lr or --optimizer.clip_norm 1"};
  if (scale < 1 && skipped < kLeastGain) {
    // Few steps are skipped, but small gradients of the others become zero: a limit, not a gain.
    finding.evidence =
        str("the loss scale came down to ", scale, ", as gradients overflow again and again");
    found.push_back(std::move(finding));
    return;
  }
  if (!(skipped > 0) || skipped >= 1) return;
  // The number of skipped steps is a matter of chance, too.
  const double steps = std::max(1.0, static_cast<double>(run.ranks[0].steps.size()));
  const auto without = [useful = 1 - skipped](size_t, size_t, StepTimes& s) {
    s.wall -= (1 - useful) * std::max(0.0, s.other());
    for (double& seconds : s.phases) seconds *= useful;
  };
  finding.evidence =
      str(percent(skipped),
          " of the steps are skipped because gradients overflow, at a loss scale of ", scale);
  finding.without = WhatIf{.change = without, .unseen = std::sqrt(skipped * (1 - skipped) / steps)};
  found.push_back(std::move(finding));
}

}  // namespace

void add_step_causes(const RunEvidence& run, Findings& found) {
  for (const auto& add : {add_checkpoints, add_evaluations, add_small_batch, add_launches,
                          add_padding, add_loss_scale}) {
    add(run, found);
  }
}

}  // namespace dtrain::diagnose

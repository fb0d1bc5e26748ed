// What a step does besides forward and backward, and work that is done for nothing.

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/communication.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;
using monitoring::StepTimes;

// What an evaluation or a checkpoint may cost, as a share of the time.
constexpr double kSmallCost = 0.01;
// A batch of so few samples keeps neither vector units nor threads of a CPU busy.
constexpr int64_t kFewSamples = 4;
constexpr int64_t kMostTimesLarger = 16;

const Steps& longest(const RunEvidence& run, Phase phase) { return run.ranks[worst_rank(run, phase)].steps; }

// How many times rarer something has to be to cost a small share of the other time.
double times_rarer(double seconds, double others) { return std::ceil(seconds / (kSmallCost * others)); }

// The best checkpoint so far is saved after an evaluation, whatever checkpoint.every is. What is saved in other steps
// comes by that interval.
void add_checkpoints(const RunEvidence& run, std::vector<Finding>& found) {
  const Steps& steps = longest(run, Phase::kCheckpoint);
  const auto is_best = [keeps = run.settings.keeps_best](const StepTimes& s) {
    return keeps && s.of(Phase::kEval) > 0;
  };
  double of_best = 0, others = 0, saves = 0, saves_of_best = 0;  // per step
  for (const StepTimes& s : steps) {
    if (!(s.of(Phase::kCheckpoint) > 0)) continue;
    (is_best(s) ? of_best : others) += s.of(Phase::kCheckpoint) / static_cast<double>(steps.size());
    (is_best(s) ? saves_of_best : saves) += 1 / static_cast<double>(steps.size());
  }
  const bool best = of_best > others;
  const double seconds = best ? of_best : others, step = mean_wall(steps);
  if (seconds <= 0) return;
  const double rarer = std::max(1.0, times_rarer(seconds, step - seconds));
  const std::string every =
      str("--checkpoint.every ", fixed(std::ceil(rarer / (best ? saves_of_best : saves)), 0), "steps");
  const bool by_steps = run.settings.saves_by_steps;  // after the same evaluations, it may be
  // By time they are planned as often as they came.
  const double planned = by_steps ? run.settings.checkpoints : std::min(run.settings.checkpoints, saves);
  const double part = best && !by_steps ? 0 : 1 / rarer;
  const auto without = [=](size_t, size_t, StepTimes& s) {
    if (is_best(s) == best) s.phases[static_cast<size_t>(Phase::kCheckpoint)] *= part;
  };
  found.push_back(
      {.cause = Cause::kCheckpoint,
       .evidence = str(of_step(seconds, step), best ? " saving the best so far" : " saving"),
       .setting = best ? str("--checkpoint.keep_best false", by_steps ? " " + every : "") : every,
       .without = Replay{
           .change = without, .planned = Phase::kCheckpoint, .planned_per_step = best ? saves_of_best : planned}});
}

void add_evaluations(const RunEvidence& run, std::vector<Finding>& found) {
  const Steps& steps = longest(run, Phase::kEval);
  const auto evaluated =
      std::count_if(steps.begin(), steps.end(), [](const StepTimes& s) { return s.of(Phase::kEval) > 0; });
  const double per_epoch = run.settings.evaluations * run.settings.steps_per_epoch;
  if (evaluated == 0 || !(per_epoch > 0)) return;
  // Of so many steps, chance decides how many were followed by one.
  const double measured = mean_of(steps, Phase::kEval), others = mean_wall(steps) - measured;
  const double seconds =
      run.settings.evaluations * measured * static_cast<double>(steps.size()) / static_cast<double>(evaluated);
  const double step = others + seconds;
  // Whole epochs, so that the evaluations of different runs compare.
  const double epochs = std::max(1.0, std::ceil(times_rarer(seconds, others) / per_epoch));
  found.push_back({.cause = Cause::kEvaluation,
                   .evidence = str(of_step(seconds, step), " evaluating"),
                   .setting = str("--train.eval_every ", fixed(epochs, 0), epochs > 1 ? "epochs" : "epoch"),
                   .without = Replay{.change = times(Phase::kEval, std::min(1.0, 1 / (epochs * per_epoch))),
                                     .planned = Phase::kEval,
                                     .planned_per_step = run.settings.evaluations}});
}

// ---- small batches ------------------------------------------------------------------------------------------------

// The same samples in steps of `larger` times as many: what is done once per step costs that much less, and forward and
// backward take `computing` of their time.
Replay in_larger_batches(int64_t larger, double computing) {
  const auto change = [part = 1.0 / static_cast<double>(larger), computing](size_t, size_t, StepTimes& s) {
    s.wall -= (1 - part) * std::max(0.0, s.other());
    s.phases[static_cast<size_t>(Phase::kOptimizer)] *= part;
    s.phases[static_cast<size_t>(Phase::kForward)] *= computing;
    s.phases[static_cast<size_t>(Phase::kBackward)] *= computing;
  };
  return {.change = change, .network = 1.0 / static_cast<double>(larger)};
}

// A given global batch would stay as it is, and with it the number of steps.
std::string larger_batch(const Settings& settings, int64_t times) {
  return str("--batch-size ", times * settings.batch_size,
             settings.global_batch > 0 ? str(" --train.global_batch ", times * settings.global_batch) : "");
}

void add_small_batch(const RunEvidence& run, std::vector<Finding>& found) {
  if (run.settings.gpu || run.settings.batch_size > kFewSamples) return;
  const Steps& steps = run.ranks[0].steps;
  const double once =
      mean_of(steps, Phase::kOptimizer) + std::max(0.0, mean_other(steps)) + communication_of(run).network();
  int64_t larger = 2;
  while (larger < kMostTimesLarger && once / static_cast<double>(larger) > 0.05 * mean_computing(steps)) larger *= 2;
  found.push_back({.cause = Cause::kSmallBatch,
                   .evidence = str(of_step(once, mean_wall(steps)), " are the same for any batch size (now ",
                                   run.settings.batch_size, run.settings.batch_size == 1 ? " sample)" : " samples)"),
                   .setting = larger_batch(run.settings, larger),
                   .otherwise = str("or more, as a larger batch is also computed faster ", kLargerGlobalBatch),
                   .without = in_larger_batches(larger, 1)});
}

// A GPU that finishes kernels as fast as the host launches them is idle between them. A larger batch has as many
// kernels, which take longer. The ranks run the same kernels, so the one that computes longest speaks for all.
void add_launches(const RunEvidence& run, std::vector<Finding>& found) {
  constexpr double kAsLong = 0.9;  // launching takes this share of forward and backward: the host does not run ahead
  const RankEvidence& rank = run.ranks[longest_computing(run)];
  const double computing = mean_computing(rank.steps), wall = mean_wall(rank.steps);
  if (!(rank.gpu.launch > kAsLong * computing) || computing <= 0 || !std::isfinite(rank.gpu.busy)) return;
  double waits = mean_other(rank.steps);
  for (const Phase phase : {Phase::kDataWait, Phase::kCheckpoint, Phase::kEval}) waits += mean_of(rank.steps, phase);
  const double idle = std::clamp(((1 - rank.gpu.busy) * wall - waits) / computing, 0.0, 1.0);
  if (idle < kLeastGain) return;  // CUDA takes about a thousand kernels ahead: then it is the host that waits
  int64_t larger = 2;
  while (larger < kMostTimesLarger && 1.0 / static_cast<double>(larger) > 1 - idle) larger *= 2;
  found.push_back({.cause = Cause::kSmallBatch,
                   .evidence = str(of_step(rank.gpu.launch, wall), " launching kernels, the GPU idle in ",
                                   percent(idle), " of forward and backward"),
                   .setting = larger_batch(run.settings, larger),
                   .otherwise = kLargerGlobalBatch,
                   .without = in_larger_batches(larger, std::max(1.0 / static_cast<double>(larger), 1 - idle))});
}

// ---- wasted work --------------------------------------------------------------------------------------------------

// Computing padding takes no longer than computing as many rows with values, and a network may skip some of it (packed
// sequences), so between nothing and that: the gain is that of the middle. (How the time of steps follows their padding
// tells no more: batches of like lengths also need fewer recurrent steps, and that does not follow the padding.)
void add_padding(const RunEvidence& run, std::vector<Finding>& found) {
  double rows = 0, cells = 0, computing = 0, step = 0;
  for (const RankEvidence& rank : run.ranks) {
    for (const StepTimes& s : rank.steps) {
      rows += s.padded.rows;
      cells += s.padded.cells;
    }
    computing = std::max(computing, mean_computing(rank.steps));
    step = std::max(step, mean_wall(rank.steps));
  }
  if (!(rows < cells)) return;
  // Batches are cut from that many global batches, sorted by length: of twice as many, half as different. An epoch has
  // no more.
  const int64_t window = std::max<int64_t>(1, run.settings.length_window);
  const auto most = static_cast<int64_t>(std::ceil(run.settings.steps_per_epoch));
  const int64_t wider = std::min(std::max<int64_t>(32, 2 * window), most);
  if (wider <= window) return;
  const double fewer = 1 - static_cast<double>(window) / static_cast<double>(wider);
  const auto without = [fewer](size_t, size_t, StepTimes& s) {
    if (!(s.padded.cells > 0)) return;
    const double left = 1 - fewer * 0.5 * (1 - s.padded.rows / s.padded.cells);
    s.phases[static_cast<size_t>(Phase::kForward)] *= left;
    s.phases[static_cast<size_t>(Phase::kBackward)] *= left;
  };
  const double waste = 1 - rows / cells;
  found.push_back({.cause = Cause::kPadding,
                   .evidence = str(percent(waste), " of the rows are padding, which takes up to ",
                                   of_step(waste * computing, step)),
                   .setting = str("--data.length_window ", wider),
                   .without = Replay{.change = without}});
}

// A step whose gradients overflow takes its time and changes nothing.
void add_loss_scale(const RunEvidence& run, std::vector<Finding>& found) {
  const LossScale& scale = run.loss_scale;
  // Without a scale, gradients that are not finite have another reason.
  if (!std::isfinite(scale.now)) return;
  const bool bf16 = std::ranges::all_of(run.ranks, [](const RankEvidence& rank) { return rank.gpu.bf16; });
  Finding finding{.cause = Cause::kLossScale,
                  .setting = bf16 ? "--amp bf16" : "",
                  .otherwise = bf16 ? "or a lower --lr" : "with a lower --lr or --optimizer.clip_norm 1"};
  if (scale.now < 1 && scale.skipped < kLeastGain) {
    // Few steps are skipped, but small gradients of the others become zero: a limit, not a gain.
    finding.evidence = str("the loss scale came down to ", scale.now, ", as gradients overflow again and again");
    found.push_back(std::move(finding));
    return;
  }
  if (!(scale.skipped > 0) || scale.skipped >= 1) return;
  // How many of so many steps are skipped is a matter of chance, too.
  const double steps = std::max(1.0, static_cast<double>(run.ranks[0].steps.size()));
  const auto without = [useful = 1 - scale.skipped](size_t, size_t, StepTimes& s) {
    s.wall -= (1 - useful) * std::max(0.0, s.other());
    for (double& seconds : s.phases) seconds *= useful;
  };
  finding.evidence = str(percent(scale.skipped),
                         " of the steps are skipped because gradients overflow, at a loss scale of ", scale.now);
  finding.without = Replay{.change = without, .unseen = std::sqrt(scale.skipped * (1 - scale.skipped) / steps)};
  found.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> step_causes(const RunEvidence& run) {
  std::vector<Finding> found;
  if (run.ranks.empty()) return found;
  for (const auto& add :
       {add_checkpoints, add_evaluations, add_small_batch, add_launches, add_padding, add_loss_scale}) {
    add(run, found);
  }
  return found;
}

}  // namespace dtrain::diagnose

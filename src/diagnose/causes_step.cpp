// What a step does besides forward and backward, and work that is done for nothing.

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;
using monitoring::StepTimes;

// What an evaluation or a checkpoint may cost, as a share of the time.
constexpr double kSmallCost = 0.01;

const Steps& longest(const RunEvidence& run, Phase phase) {
  return std::max_element(
             run.ranks.begin(), run.ranks.end(),
             [phase](const auto& a, const auto& b) { return mean_of(a.steps, phase) < mean_of(b.steps, phase); })
      ->steps;
}

Change times(Phase phase, double factor) {
  return [phase, factor](size_t, size_t, StepTimes& s) { s.phases[static_cast<size_t>(phase)] *= factor; };
}

// How many times rarer something has to be to cost a small share of the other time.
double times_rarer(double seconds, double others) { return std::ceil(seconds / (kSmallCost * others)); }

void add_checkpoints(const RunEvidence& run, std::vector<Finding>& found) {
  const Steps& steps = longest(run, Phase::kCheckpoint);
  const double seconds = mean_of(steps, Phase::kCheckpoint), step = mean_wall(steps);
  if (seconds <= 0) return;
  const double rarer = times_rarer(seconds, step - seconds);
  found.push_back({.cause = Cause::kCheckpoint,
                   .rank = -1,
                   .evidence = str(of_step(seconds, step), " saving"),
                   .gain = gain_of(run.steps(), times(Phase::kCheckpoint, 1 / rarer)),
                   .setting = str("--checkpoint.every ", fixed(std::ceil(rarer / run.settings.saves), 0), "steps"),
                   .otherwise = ""});
  if (!(run.settings.saves > 0)) found.back().setting = "--checkpoint.every 10min";
}

void add_evaluations(const RunEvidence& run, std::vector<Finding>& found) {
  const Steps& steps = longest(run, Phase::kEval);
  const double seconds = mean_of(steps, Phase::kEval), step = mean_wall(steps);
  if (seconds <= 0) return;
  const double rarer = times_rarer(seconds, step - seconds);
  const double epochs = rarer / (run.settings.evaluations * run.settings.steps_per_epoch);
  found.push_back({.cause = Cause::kEvaluation,
                   .rank = -1,
                   .evidence = str(of_step(seconds, step), " evaluating"),
                   .gain = gain_of(run.steps(), times(Phase::kEval, 1 / rarer)),
                   .setting = str("--train.eval_every ", fixed(std::max(1.0, std::ceil(epochs)), 0), "epochs"),
                   .otherwise = ""});
}

// A larger micro-batch does per step what it did for every half of it.
void add_small_batch(const RunEvidence& run, std::vector<Finding>& found) {
  const Steps& steps = longest(run, Phase::kOptimizer);
  const double seconds = mean_of(steps, Phase::kOptimizer);
  if (seconds <= 0) return;
  found.push_back({.cause = Cause::kOptimizer,
                   .rank = -1,
                   .evidence = str(of_step(seconds, mean_wall(steps)), " in the optimizer"),
                   .gain = gain_of(run.steps(), times(Phase::kOptimizer, 0.5), /*network=*/0.5),
                   .setting = str("--batch-size ", 2 * run.settings.batch_size),
                   .otherwise = ""});
}

void add_copies(const RunEvidence& run, std::vector<Finding>& found) {
  const Steps& steps = longest(run, Phase::kH2d);
  const double seconds = mean_of(steps, Phase::kH2d);
  if (seconds <= 0) return;
  found.push_back({.cause = Cause::kCopy,
                   .rank = only_rank(run, Phase::kH2d),
                   .evidence = str(of_step(seconds, mean_wall(steps)), " copying batches to the device"),
                   .gain = gain_of(run.steps(), times(Phase::kH2d, 0)),
                   .setting = "",
                   .otherwise = "if copies were free (dtrain doctor checks the PCIe link)"});
}

// The network computes padding as it computes values.
void add_padding(const RunEvidence& run, std::vector<Finding>& found) {
  const double waste = run.settings.padding_waste;
  if (!(waste > 0)) return;
  const auto without = [waste](size_t, size_t, StepTimes& s) {
    s.phases[static_cast<size_t>(Phase::kForward)] *= 1 - waste;
    s.phases[static_cast<size_t>(Phase::kBackward)] *= 1 - waste;
  };
  found.push_back({.cause = Cause::kPadding,
                   .rank = -1,
                   .evidence = str(fixed(100 * waste, 0), " % of the rows are padding"),
                   .gain = gain_of(run.steps(), without),
                   .setting = "--data.length_window 64",
                   .otherwise = ""});
}

}  // namespace

std::vector<Finding> step_causes(const RunEvidence& run) {
  std::vector<Finding> found;
  if (run.ranks.empty()) return found;
  add_checkpoints(run, found);
  add_evaluations(run, found);
  add_small_batch(run, found);
  add_copies(run, found);
  add_padding(run, found);
  return found;
}

}  // namespace dtrain::diagnose

// The range test of the learning rate; rate_range.h has its arithmetic.

#include <algorithm>
#include <chrono>
#include <exception>

#include "core/clock.h"
#include "core/log.h"
#include "dist/failure.h"
#include "dist/object_collectives.h"
#include "job/step_trial.h"
#include "text/strings.h"
#include "tune/stages.h"

namespace dtrain::tune {
namespace {

void make_range_test(const Trials& trials, TuneState& found) {
  constexpr int64_t kSteps = 100, kFewest = 20;
  const TunedRun& run = trials.run();
  const TunedSettings& settings = found.settings;
  const config::OptimizerConfig& optimizer = run.config().optimizer;
  const bool adam = optimizer.name != config::OptimizerName::kSgd;
  const double first = adam ? 1e-7 : 1e-5, last = adam ? 1 : 10;
  trials.leave_run();  // a network that the trials have trained says nothing about rates
  job::StepTrial trial(trials.run_for(settings),
                       {.batch_size = run.batches.micro_batch_of(settings.batch_size),
                        .accumulate = run.batches.accumulate_of(settings.batch_size),
                        .change = [&](config::Config& config) { apply(settings, config); }});
  train::StepRunner& runner = trial.runner();
  const log::Quiet quiet;
  runner.step_at(first);  // makes what is made once
  const auto began = std::chrono::steady_clock::now();
  runner.step_at(first);
  const double step = std::max(1e-6, seconds_since(began));
  const double fitting =
      trials.time().left_in_all() / dist::broadcast_object(trials.process().host, step);
  if (fitting < static_cast<double>(kFewest)) {
    found.left_out.push_back(str("the range test of the learning rate: ", kFewest, " steps of ",
                                 human_duration(step), " do not fit into --minutes"));
    return;
  }
  const int64_t steps = std::min(kSteps, static_cast<int64_t>(std::min(fitting, 1e6)));
  const std::vector<double> rates = exponential_rates(first, last, steps);
  RangeTest test{.given = optimizer.lr};
  Divergence divergence(steps);
  for (const double rate : rates) {
    if (trials.stopped()) return;
    trials.time().show(Stage::kRate);
    test.rates.push_back(rate);
    test.losses.push_back(runner.step_at(rate));  // the same on all ranks
    if (divergence.add(test.losses.back())) break;
  }
  // With all rates, which say how far apart the steps are.
  test.suggestion = suggest_rate(rates, test.losses);
  found.range_test = std::move(test);
}

}  // namespace

TuneState test_rates(const Trials& trials, TuneState found) {
  if (trials.stopped()) return found;
  try {
    make_range_test(trials, found);
  } catch (...) {
    // Of several ranks the others wait for this one, so that it has to end.
    if (trials.process().host.size() > 1 || !dist::missing_memory(std::current_exception())) throw;
    found.left_out.emplace_back(
        "the range test of the learning rate, which ran out of memory: use a smaller --batch-size");
  }
  return found;
}

}  // namespace dtrain::tune

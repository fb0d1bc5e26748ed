// The given settings beside the found ones.

#include <cmath>
#include <vector>

#include "core/spread.h"
#include "tune/stages.h"

namespace dtrain::tune {
namespace {

constexpr int kRounds = 3;
constexpr double kStepsOfRound = 6;

// The rates of both, measured in turn.
struct Comparison {
  std::optional<Spread> given = {}, found = {};
  bool found_failed = false;  // it ran out of memory
};

Comparison measure(const Trials& trials, const TuneState& found) {
  const TunedRun& run = trials.run();
  const bool differs = !(found.settings == run.given);
  const double steps = (found.given_fits && differs ? 2 : 1) * kRounds * kStepsOfRound;
  const double samples =
      steps * static_cast<double>(run.batches.global_batch_of(found.settings.batch_size));
  const bool whole_fit = samples / found.rate <= trials.left();
  Comparison comparison;
  std::vector<double> given_rates, found_rates;
  for (int round = 0; round < kRounds; ++round) {
    if (trials.stopped() || (round > 0 && trials.left() <= 0)) break;
    if (found.given_fits) {
      if (const auto rate = trials.final_rate(run.given, whole_fit)) given_rates.push_back(*rate);
    }
    if (!differs) continue;
    if (const auto rate = trials.final_rate(found.settings, whole_fit)) {
      found_rates.push_back(*rate);
    } else {
      comparison.found_failed = true;
    }
  }
  if (!given_rates.empty()) comparison.given = spread_of(given_rates);
  if (!differs) comparison.found = comparison.given;
  if (!found_rates.empty()) comparison.found = spread_of(found_rates);
  return comparison;
}

TrialRow row_of(const TunedSettings& settings, const std::optional<Spread>& rate, bool chosen,
                const char* note) {
  return {.stage = Stage::kResult,
          .settings = settings,
          .samples_per_second = rate ? rate->median : std::nan(""),
          .chosen = chosen,
          .note = note};
}

}  // namespace

TuneState compare(const Trials& trials, TuneState found) {
  if (trials.stopped() || !(found.rate > 0)) return found;
  const TunedSettings given = trials.run().given, tried = found.settings;
  const Comparison rates = measure(trials, found);
  const double as_good = takes_less(tried, given) ? 1 - kAsGood : 1;
  const bool slower =
      rates.given && rates.found && rates.found->median < as_good * rates.given->median;
  found.given_rate = rates.given;
  found.found_rate = rates.found;
  // Beside each other they may be the other way round than in the trials, and what fitted in a
  // trial may not fit again.
  if (slower || (rates.found_failed && rates.given)) {
    found.settings = given;
    found.found_rate = rates.given;
    found.largest = found.largest_as_given;
  } else if (rates.found_failed) {
    found.left_out.emplace_back(
        "result: a comparison of what was found, which ran out of memory in it: use a smaller "
        "--batch-size");
  }
  if (rates.given)
    found.rows.push_back(row_of(given, rates.given, given == found.settings, "as given"));
  if (!(tried == given) && (rates.found || rates.found_failed)) {
    found.rows.push_back(row_of(tried, rates.found, tried == found.settings,
                                rates.found_failed ? "found, but out of memory"
                                : slower           ? "found, but slower"
                                                   : "found"));
  }
  return found;
}

}  // namespace dtrain::tune

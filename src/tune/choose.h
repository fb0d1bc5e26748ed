#pragma once

// Which of several measured choices to take, and how much to measure of each. Rates are in samples
// per second. Pure but for the measurement that a search asks for.

#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace dtrain::tune {

// A rate this share below the best is as good, if it costs less
inline constexpr double kAsGood = 0.03;

struct RatedChoice {
  double rate = 0;  // NaN: it cannot be used
  double cost = 0;  // resources that it takes, in any unit
};

// The knee: the choice that costs least of those within `tolerance` of the best rate; of equal
// cost, the fastest. Requires: a choice that can be used.
size_t fewest_resources(std::span<const RatedChoice> choices, double tolerance = kAsGood);

// A short look along an axis on which rates rise, are flat and may fall, such as batch sizes from
// the largest down: two in a row that are far below the fastest end it, since those behind them are
// slower still.
struct Looks {
  std::vector<size_t> contenders = {};  // indices of those that are worth a longer measurement
  std::vector<double> rates = {};       // one per measured choice, by index; NaN: cannot be used
  bool stopped = false;
};

// Share of the fastest rate: less is lost, even with the noise of a short time
inline constexpr double kContends = 0.7;

// `measure` as in halve().
Looks look_along(size_t choices, const std::function<std::optional<double>(size_t index)>& measure);

// Successive halving (Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and
// Hyperparameter Optimization", AISTATS 2016): all choices are measured for a short time, the
// better half twice as long, and so on, so that each round takes as long as the one before and most
// of the time goes to those that may be the best.
struct Round {
  size_t choices = 0;
  double seconds = 0;  // time to measure one choice
};

struct RoundLimits {
  double overhead = 0;    // seconds that each measurement takes beside its own
  double shortest = 0.1;  // seconds below which a measurement says nothing
  double longest = 10;    // above which it says nothing new
};

// The rounds for `choices` choices that end within `seconds`. Fewer choices begin, or fewer rounds
// are held, where the time does not suffice for all of them; at least one is measured once.
std::vector<Round> plan_rounds(size_t choices, double seconds, const RoundLimits&);

struct Candidate {
  size_t index = 0;  // index in the `costs` of halve()
  // mean over its rounds, by time; NaN: cannot be used
  double rate = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;  // that it was measured for
  size_t rounds = 0;
};

struct Halving {
  std::vector<Candidate> candidates = {};  // those that were measured, by index
  std::optional<size_t> winner = {};       // index; none: nothing could be measured
  bool stopped = false;
};

// `costs`: of the choices, the most promising first. `measure` returns the rate; NaN: this choice
// cannot be used; nullopt: stop. The half that stays is the fastest choice and, first, those as
// good as it by cost: a cheap one that is as good as the best is not lost to those that are a
// little faster.
Halving halve(std::span<const double> costs, const std::vector<Round>&, double tolerance,
              const std::function<std::optional<double>(size_t index, double seconds)>& measure);

}  // namespace dtrain::tune

#include "tune/choose.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace dtrain::tune {
namespace {

// Times the tolerance, before the last round: rates of a short time are not certain
constexpr double kEarly = 2;

double best_rate(std::span<const RatedChoice> choices) {
  double best = std::numeric_limits<double>::quiet_NaN();
  for (const RatedChoice& choice : choices) best = std::fmax(best, choice.rate);
  return best;
}

void add(Candidate& candidate, double rate, double seconds) {
  const double before = candidate.seconds;
  candidate.rate = candidate.rounds == 0
                       ? rate
                       : (candidate.rate * before + rate * seconds) / (before + seconds);
  candidate.seconds += seconds;
  ++candidate.rounds;
}

// The better `count` of the candidates: the fastest, then those as good as it by cost, then the
// others by rate.
void keep_best(std::vector<Candidate>& candidates, std::span<const double> costs, size_t count,
               double tolerance) {
  std::erase_if(candidates, [](const Candidate& one) { return std::isnan(one.rate); });
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.rate > b.rate; });
  if (candidates.size() <= count || count == 0) return;
  const double as_good = (1 - tolerance) * candidates.front().rate;
  const auto end = std::find_if(candidates.begin(), candidates.end(),
                                [&](const Candidate& one) { return one.rate < as_good; });
  std::stable_sort(candidates.begin() + 1, end, [&](const Candidate& a, const Candidate& b) {
    return costs[a.index] < costs[b.index];
  });
  candidates.resize(count);
}

// Those that came farthest decide. The last round may have been cut short: then it decides with the
// one before.
std::optional<size_t> winner_of(const std::vector<Candidate>& measured,
                                std::span<const double> costs, double tolerance) {
  size_t most = 0;
  for (const Candidate& one : measured) {
    if (!std::isnan(one.rate)) most = std::max(most, one.rounds);
  }
  const auto reached = static_cast<size_t>(std::count_if(
      measured.begin(), measured.end(), [&](const Candidate& one) { return one.rounds >= most; }));
  const size_t needed = reached < 2 && most > 1 ? most - 1 : most;
  std::vector<RatedChoice> choices;
  std::vector<size_t> indices;
  for (const Candidate& one : measured) {
    if (std::isnan(one.rate) || one.rounds < needed) continue;
    choices.push_back({one.rate, costs[one.index]});
    indices.push_back(one.index);
  }
  if (choices.empty()) return std::nullopt;
  return indices[fewest_resources(choices, tolerance)];
}

}  // namespace

size_t fewest_resources(std::span<const RatedChoice> choices, double tolerance) {
  const double best = best_rate(choices);
  DTRAIN_CHECK(!std::isnan(best), "none of ", choices.size(), " choices can be used");
  std::optional<size_t> found;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!(choices[i].rate >= (1 - tolerance) * best)) continue;
    const bool better =
        !found || choices[i].cost < choices[*found].cost ||
        (choices[i].cost == choices[*found].cost && choices[i].rate > choices[*found].rate);
    if (better) found = i;
  }
  return *found;
}

Looks look_along(size_t choices,
                 const std::function<std::optional<double>(size_t index)>& measure) {
  constexpr int kInARow = 2;
  Looks looks;
  double best = 0;
  for (int lost = 0; looks.rates.size() < choices && lost < kInARow;) {
    const std::optional<double> rate = measure(looks.rates.size());
    if (!rate) {
      looks.stopped = true;
      break;
    }
    looks.rates.push_back(*rate);
    best = std::fmax(best, *rate);
    lost = *rate < kContends * best ? lost + 1 : 0;
  }
  for (size_t i = 0; i < looks.rates.size(); ++i) {
    if (looks.rates[i] >= kContends * best) looks.contenders.push_back(i);
  }
  return looks;
}

std::vector<Round> plan_rounds(size_t choices, double seconds, const RoundLimits& limits) {
  const double least = limits.shortest + limits.overhead;
  for (size_t begin = choices; begin >= 1; --begin) {
    std::vector<size_t> counts;
    for (size_t count = begin; counts.empty() || count > 1; count = (count + 1) / 2) {
      counts.push_back(count);
      if (count == 2) break;
    }
    // First with all rounds, then without the last ones, then with fewer choices.
    for (size_t rounds = counts.size(); rounds >= 1; --rounds) {
      const double each = seconds / static_cast<double>(rounds);
      if (each / static_cast<double>(begin) < least && !(begin == 1 && rounds == 1)) continue;
      std::vector<Round> plan;
      for (size_t round = 0; round < rounds; ++round) {
        const double share = each / static_cast<double>(counts[round]) - limits.overhead;
        plan.push_back({counts[round], std::clamp(share, limits.shortest, limits.longest)});
      }
      return plan;
    }
  }
  return {};
}

Halving halve(std::span<const double> costs, const std::vector<Round>& rounds, double tolerance,
              const std::function<std::optional<double>(size_t index, double seconds)>& measure) {
  Halving result;
  std::vector<Candidate> left;
  for (size_t i = 0; !rounds.empty() && i < std::min(costs.size(), rounds.front().choices); ++i) {
    left.push_back({.index = i});
  }
  std::vector<Candidate> measured(left.size());
  for (const Round& round : rounds) {
    if (&round != &rounds.front()) keep_best(left, costs, round.choices, kEarly * tolerance);
    for (Candidate& candidate : left) {
      const std::optional<double> rate = measure(candidate.index, round.seconds);
      if (!rate) {
        result.stopped = true;
        break;
      }
      add(candidate, *rate, round.seconds);
      measured[candidate.index] = candidate;
    }
    if (result.stopped) break;
  }
  for (const Candidate& candidate : measured) {
    if (candidate.rounds > 0) result.candidates.push_back(candidate);
  }
  result.winner = winner_of(result.candidates, costs, tolerance);
  return result;
}

}  // namespace dtrain::tune

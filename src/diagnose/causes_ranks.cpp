// Ranks for which the others wait, by their own phases: the wait itself shows only the victims. A
// rank that is slow in every step and ranks that are slow now and then are two questions, and
// neither may take ordinary noise for an answer: of two equal ranks, one or the other is
// always last.

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "diagnose/communication.h"
#include "diagnose/find_causes.h"
#include "diagnose/lateness.h"
#include "diagnose/means.h"
#include "text/strings.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;
using measure::StepTimes;

// Those of own_work().
constexpr std::array kComputing = {Phase::kForward, Phase::kBackward, Phase::kOptimizer};
// Two processes that do the same differ by 2 %, as a standard deviation, for as long as they run or
// for a while: it depends on where their memory lies and on what the machine does beside them.
// Twice this speaks in 1 of 300 healthy runs (bench/diagnosis.py).
constexpr double kEqualRanks = 0.03;
// The same of ranks that are late in turn: what stays for a run is none of that, but a host that
// others use, too, slows now one core and now another (1 of 55 healthy runs on one that drifted by
// 15 % gained 4 %).
constexpr double kInTurn = 0.02;

// The steps as if the samples of each had the same number of rows on all ranks, where they have
// rows. A rank that gets the longest samples computes longer, and its machine is not slow.
std::vector<Steps> with_even_rows(std::vector<Steps> ranks) {
  for (size_t step = 0; step < ranks[0].size(); ++step) {
    double sum = 0;
    bool all = true;
    for (const Steps& rank : ranks) {
      sum += rank[step].padded.cells;
      all = all && rank[step].padded.cells > 0;
    }
    for (size_t rank = 0; all && rank < ranks.size(); ++rank) {
      StepTimes& s = ranks[rank][step];
      const double factor = sum / static_cast<double>(ranks.size()) / s.padded.cells;
      for (const Phase phase : {Phase::kForward, Phase::kBackward}) s.of(phase) *= factor;
    }
  }
  return ranks;
}

// How fast a rank is that nothing holds back: the median over all ranks, of two ranks the
// faster one.
double usual_mean(const std::vector<Steps>& ranks, Phase phase) {
  std::vector<double> means;
  for (const Steps& rank : ranks) means.push_back(mean_of(rank, phase));
  return quantile(std::move(means), 0.5);
}

// ---- one rank or one host, in every step --------------------------------------------------------

size_t slowest_rank(const std::vector<Steps>& ranks) {
  const auto seconds = [](const Steps& steps) {
    return mean_computing(steps) + mean_of(steps, Phase::kOptimizer);
  };
  return static_cast<size_t>(std::ranges::max_element(ranks, {}, seconds) - ranks.begin());
}

// How far behind the rank was when its first and its last bucket of gradients were ready: whether
// all of its backward is slow, or what comes at its beginning or its end. "" where that was
// not measured.
std::string behind_at_buckets(const std::vector<Steps>& ranks, size_t late) {
  std::vector<double> firsts, lasts;
  double first = 0, last = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    double sum_of_first = 0, sum_of_last = 0, steps = 0;
    for (const StepTimes& step : ranks[rank]) {
      if (!(step.buckets[2] > 0)) continue;  // the rank had no samples
      sum_of_first += step.buckets[0];
      sum_of_last += step.buckets[2];
      ++steps;
    }
    if (steps == 0) return "";
    if (rank == late) {
      first = sum_of_first / steps;
      last = sum_of_last / steps;
    } else {
      firsts.push_back(sum_of_first / steps);
      lasts.push_back(sum_of_last / steps);
    }
  }
  return str(" (", fixed(1e3 * (first - quantile(firsts, 0.5)), 1),
             " at its first bucket of gradients, ", fixed(1e3 * (last - quantile(lasts, 0.5)), 1),
             " at its last)");
}

// By rank: for each phase, the usual time as a share of what it takes there; 1 for ranks of
// other hosts.
using Factors = std::vector<std::array<double, kComputing.size()>>;

// How long computing takes need not follow the number of rows: a rank is late by what it is late
// either way, as measured and with `even` rows.
Factors factors_of(const RunEvidence& run, const std::vector<Steps>& ranks,
                   const std::vector<Steps>& even, int host) {
  Factors factors(ranks.size());
  for (auto& of_rank : factors) of_rank.fill(1);
  for (size_t i = 0; i < kComputing.size(); ++i) {
    const double usual = usual_mean(ranks, kComputing[i]),
                 usual_even = usual_mean(even, kComputing[i]);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const double own = mean_of(ranks[rank], kComputing[i]),
                   own_even = mean_of(even[rank], kComputing[i]);
      if (run.ranks[rank].host != host || !(own > usual) || !(own_even > usual_even)) continue;
      factors[rank][i] = std::max(usual / own, usual_even / own_even);
    }
  }
  return factors;
}

// Seconds per step that a rank would gain.
double lateness(const Steps& steps, const Factors::value_type& factors) {
  double seconds = 0;
  for (size_t i = 0; i < kComputing.size(); ++i)
    seconds += (1 - factors[i]) * mean_of(steps, kComputing[i]);
  return seconds;
}

// The machine of several late ranks is what is slow. "" where there is one late rank on the
// only host.
std::string text_of_host(const RunEvidence& run, int host, const std::vector<size_t>& late) {
  const auto of_host =
      std::ranges::count_if(run.ranks, [&](const auto& r) { return r.host == host; });
  if (of_host < 2 || (run.hosts.size() < 2 && late.size() < 2)) return "";
  return str("; ", late.size(), " of ", of_host, " ranks of host ",
             host_of(run, run.ranks[late[0]]).name, late.size() > 1 ? " are late" : " is late");
}

// All ranks of a slow machine are late, and wait for each other: they gain together.
Finding late_rank(const RunEvidence& run, const std::vector<Steps>& ranks,
                  const std::vector<Steps>& even) {
  const size_t slowest = slowest_rank(even);
  const int host = run.ranks[slowest].host;
  const Factors factors = factors_of(run, ranks, even, host);
  std::vector<size_t> late;
  std::optional<size_t> named;  // first rank that is about as late as the slowest one
  const double longest = lateness(ranks[slowest], factors[slowest]);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const double seconds = lateness(ranks[rank], factors[rank]);
    if (rank == slowest || seconds > 0.5 * longest) late.push_back(rank);
    if (!named && (rank == slowest || seconds > 0.9 * longest)) named = rank;
  }
  Phase phase = kComputing[0];
  double most = 0;
  for (size_t i = 0; i < kComputing.size(); ++i) {
    const double more = (1 - factors[*named][i]) * mean_of(ranks[*named], kComputing[i]);
    if (more <= most) continue;
    most = more;
    phase = kComputing[i];
  }
  const auto as_usual = [factors](size_t rank, size_t, StepTimes& s) {
    for (size_t i = 0; i < kComputing.size(); ++i) s.of(kComputing[i]) *= factors[rank][i];
  };
  return {.cause = Cause::kLateRank,
          .rank = static_cast<int>(*named),
          .evidence = str(of_step(most, mean_wall(ranks[*named])), " more in ",
                          measure::kPhaseNames[static_cast<size_t>(phase)], " than the other ranks",
                          phase == Phase::kBackward ? behind_at_buckets(ranks, *named) : "",
                          text_of_host(run, host, late), "; ranks wait ",
                          fixed(1e3 * communication_of(run).late, 1), " ms for the last one"),
          .otherwise = "if its machine kept up (dtrain doctor looks at it)",
          .without = WhatIf{.change = as_usual, .unseen = kEqualRanks}};
}

// ---- now one rank, now another ------------------------------------------------------------------

// Without the ranks that are late in most steps: they are slow, which late_rank() says.
std::vector<std::vector<double>> late_at_times(const std::vector<Steps>& ranks,
                                               const std::vector<Steps>& even) {
  constexpr double kMostSteps = 0.75;
  std::vector<std::vector<double>> late = lateness_of(ranks);
  const std::vector<std::vector<double>> late_even = lateness_of(even);
  for (size_t rank = 0; rank < late.size(); ++rank) {
    for (size_t step = 0; step < late[rank].size(); ++step) {
      late[rank][step] = std::min(late[rank][step], late_even[rank][step]);
    }
  }
  for (std::vector<double>& rank : late) {
    const auto steps = std::ranges::count_if(rank, [](double seconds) { return seconds > 0; });
    if (static_cast<double>(steps) > kMostSteps * static_cast<double>(rank.size()))
      std::ranges::fill(rank, 0);
  }
  return late;
}

// The rank that most of the lateness is of; -1: it is divided among them. Of two ranks one has half
// of it by chance.
int only_late_rank(const std::vector<double>& lateness) {
  double sum = 0;
  for (const double seconds : lateness) sum += seconds;
  const auto most = std::ranges::max_element(lateness);
  const double share = std::max(0.6, 0.5 + 0.5 / static_cast<double>(lateness.size()));
  return *most > share * sum ? static_cast<int>(most - lateness.begin()) : -1;
}

double share_of_steps_with(const std::vector<std::vector<double>>& late) {
  size_t steps = 0;
  for (size_t step = 0; step < late[0].size(); ++step) {
    steps += std::ranges::any_of(late, [step](const auto& rank) { return rank[step] > 0; }) ? 1 : 0;
  }
  return static_cast<double>(steps) / static_cast<double>(late[0].size());
}

Finding late_now_and_then(const std::vector<Steps>& ranks, const std::vector<Steps>& even) {
  std::vector<std::vector<double>> late = late_at_times(ranks, even);
  std::vector<double> sums;
  for (const std::vector<double>& rank : late)
    sums.push_back(std::accumulate(rank.begin(), rank.end(), 0.0));
  const int only = only_late_rank(sums);
  for (size_t rank = 0; only >= 0 && rank < late.size(); ++rank) {
    if (static_cast<int>(rank) != only) std::ranges::fill(late[rank], 0);
  }
  const std::string steps = percent(share_of_steps_with(late)) + " of the steps";
  const auto in_time = [late = std::move(late)](size_t rank, size_t step, StepTimes& s) {
    const double seconds = own_work(s);
    if (seconds <= late[rank][step]) return;
    for (const Phase phase : kComputing) s.of(phase) *= 1 - late[rank][step] / seconds;
  };
  return {.cause = only >= 0 ? Cause::kLateRank : Cause::kRotatingRank,
          .rank = only,
          .evidence = only >= 0
                          ? str("it takes longer than the others in ", steps)
                          : str("in ", steps,
                                " some rank takes longer than the others, now one, now another"),
          .otherwise = only >= 0 ? "if its machine kept up (dtrain doctor looks at it)"
                                 : "if all ranks were even",
          .without = WhatIf{.change = in_time, .unseen = only >= 0 ? kEqualRanks : kInTurn}};
}

}  // namespace

void add_rank_causes(const RunEvidence& run, Findings& found) {
  const std::vector<Steps> ranks = run.steps();
  if (ranks.size() < 2) return;
  const std::vector<Steps> even = with_even_rows(ranks);
  found.push_back(late_rank(run, ranks, even));
  found.push_back(late_now_and_then(ranks, even));
}

}  // namespace dtrain::diagnose

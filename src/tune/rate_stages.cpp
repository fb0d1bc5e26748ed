#include "tune/rate_stages.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include "core/quiet_log.h"
#include "core/stopwatch.h"
#include "core/strings.h"
#include "dist/failure.h"
#include "dist/object_collectives.h"
#include "job/data_bench.h"
#include "job/trial.h"
#include "tune/memory_stage.h"

namespace dtrain::tune {
namespace {

// Shares of the time that is left when a stage begins; what one does not need is there for
// the next.
constexpr double kOfNetwork = 0.25, kOfMemoryAgain = 0.35, kOfLooks = 0.2, kOfBatch = 0.45,
                 kOfNetworkAgain = 0.35, kOfLoadingAlone = 0.1, kOfLoader = 0.5;
constexpr double kFirstLook = 0.1;  // seconds
constexpr double kSameNetwork =
    0.01;  // networks cost the same; the given one is kept where others are no faster
constexpr int kRounds = 3;  // of the comparison
constexpr double kStepsOfRound = 6;

// Of loading alone, by reader threads; adds rows.
std::vector<LoadingSpeed> loading_speeds(Session& session) {
  const Settings& found = session.result.found;
  const auto own = static_cast<int>(found.workers);
  const int cores = dist::broadcast_object(session.process().host, session.process().cores);
  const std::vector<int> threads =
      session.freedom.workers ? job::threads_to_compare(cores, own) : std::vector{own};
  const double each = std::clamp(
      kOfLoadingAlone * session.left() / static_cast<double>(2 * threads.size()), 0.05, 0.5);
  session.show(Stage::kLoader);
  session.leave_run();  // which may have been made with another batch
  const job::DataBench bench = job::bench_data(
      session.run_for(found), {.threads = threads, .rounds = 1, .seconds = each, .cold = false});
  std::vector<LoadingSpeed> speeds;
  for (const job::LoadingRate& rate : bench.rates) {
    if (rate.threads == 0 || rate.cold) continue;
    speeds.push_back({rate.threads, rate.samples_per_second.median});
    Settings settings = found;
    settings.workers = rate.threads;
    session.result.rows.push_back({.stage = Stage::kLoader,
                                   .settings = settings,
                                   .samples_per_second = rate.samples_per_second.median,
                                   .seconds = each,
                                   .note = "loading alone"});
  }
  return speeds;
}

// Whether loading alone, with the readers that there are, takes so little of a step that no choice
// of readers and read-ahead gains anything, though all of it were hidden. Then they stay, and the
// row says so.
bool loading_is_next_to_nothing(Session& session, const std::vector<LoadingSpeed>& speeds) {
  const Settings& found = session.result.found;
  const auto own =
      std::ranges::find(speeds, static_cast<int>(found.workers), &LoadingSpeed::threads);
  if (own == speeds.end() || !(session.rate < kAsGood * own->samples_per_second)) return false;
  for (Row& row : session.result.rows) {
    if (row.stage != Stage::kLoader || row.settings.workers != found.workers) continue;
    row.chosen = true;
    row.note = str("loading alone: ", fixed(own->samples_per_second / session.rate, 0),
                   " times as fast as the network, so that other settings gain nothing");
  }
  return true;
}

// Numbers of batches to read ahead. On the CPU they take memory of the same budget.
std::vector<int64_t> prefetch_candidates(const Session& session, int64_t given, bool on_cpu) {
  std::vector<int64_t> ahead = {given};
  for (const int64_t prefetch : {2, 4, 8}) {
    const double more = static_cast<double>(prefetch - given) * session.batch_bytes;
    const bool fits = !on_cpu || session.process_bytes + more <= session.result.budget_bytes;
    if (session.freedom.prefetch && prefetch != given && fits) ahead.push_back(prefetch);
  }
  return ahead;
}

void add_result_row(Session& session, const Settings& settings, const std::optional<Spread>& rate,
                    const char* note) {
  session.result.rows.push_back({.stage = Stage::kResult,
                                 .settings = settings,
                                 .samples_per_second = rate ? rate->median : std::nan(""),
                                 .chosen = settings == session.result.found,
                                 .note = note});
}

// From the chosen network to one that is known to fit; `why` goes into the rows from
// `first_row` on.
void go_back_to(Session& session, const Settings& before, size_t first_row,
                const std::string& why) {
  for (Row& row : std::span(session.result.rows).subspan(first_row)) {
    if (row.stage != Stage::kNetwork) continue;
    if (row.chosen) row.note = why;
    row.chosen = row.settings == before;
    if (row.chosen && row.samples_per_second > 0) session.rate = row.samples_per_second;
  }
  session.result.found = before;
}

// The network that was chosen by its rate may need more memory than the one before: the search for
// the largest batch again. Rates were measured beside the budget, which on the CPU
// nothing enforces.
void keep_if_it_fits(Session& session, const Settings& before, size_t first_row) {
  TuneResult& result = session.result;
  const double process_bytes = session.process_bytes, batch_bytes = session.batch_bytes;
  session.leave_run();  // its memory is for the trials
  LargestBatch largest =
      search_memory_again(session, result.found, kOfMemoryAgain * session.left());
  if (largest.batch == 0) {
    const bool tried = largest.end != LargestBatch::End::kStopped;
    const std::string why = tried ? "does not fit into memory"
                                  : "has a memory that could not be tried within --minutes";
    if (!session.stopped()) result.left_out.push_back("network: the fastest " + why);
    session.process_bytes = process_bytes;
    session.batch_bytes = batch_bytes;
    go_back_to(session, before, first_row, why);
    return;
  }
  result.largest = std::move(largest);
  result.found.batch_size = std::min(result.found.batch_size, result.largest.batch);
}

// The given batch if it fits with checkpointing alone, else that of the other candidates.
int64_t batch_with_checkpointing(Session& session) {
  const TuneResult& result = session.result;
  Settings given = result.found;
  given.batch_size = result.given.batch_size;
  given.checkpointing = true;
  const bool may_help = session.freedom.checkpointing && !result.found.checkpointing &&
                        result.found.batch_size < result.given.batch_size;
  if (!may_help || !fits_in_memory(session, given, kOfMemoryAgain * session.left()))
    return result.found.batch_size;
  return given.batch_size;
}

// The fastest of the networks, if it fits.
void take_fastest_network(Session& session, const std::vector<Settings>& candidates,
                          double share_of_time) {
  TuneResult& result = session.result;
  if (candidates.size() < 2) return;
  std::vector<double> costs;
  for (const Settings& one : candidates) costs.push_back(differences(one, result.given));
  const size_t first_row = result.rows.size();
  const auto chosen = session.choose(Stage::kNetwork, candidates, costs, kSameNetwork,
                                     share_of_time * session.left());
  if (!chosen) return;
  const Settings before = result.found;
  result.found = *chosen;
  if (chosen->amp != before.amp || chosen->checkpointing != before.checkpointing) {
    keep_if_it_fits(session, before, first_row);
  }
}

// The fastest rate so far of a network with this precision; 0: there is none.
double best_rate_with(const Session& session, config::AmpMode amp) {
  double best = 0;
  for (const Row& row : session.result.rows) {
    if (row.stage == Stage::kNetwork && row.settings.amp == amp)
      best = std::fmax(best, row.samples_per_second);
  }
  return best;
}

// What travels through shared memory has no bytes to save. Rounding has to be worth more than
// a tie.
void choose_wire(Session& session) {
  constexpr double kTie = 0.03, kOfWire = 0.1;
  TuneResult& result = session.result;
  if (session.stopped() || !session.freedom.wire || result.ranks == 1) return;
  if (session.run_for(result.found).connections->gradients().name() == "shared_memory") return;
  std::vector<Settings> candidates = {result.found, result.found};
  candidates[1].wire =
      result.found.wire == config::Wire::kFp32 ? config::Wire::kBf16 : config::Wire::kFp32;
  std::vector<double> costs;
  for (const Settings& one : candidates) costs.push_back(differences(one, result.given));
  const auto chosen =
      session.choose(Stage::kNetwork, candidates, costs, kTie, kOfWire * session.left());
  if (chosen) result.found.wire = chosen->wire;
}

void choose_network_again(Session& session) {
  Freedom freedom = session.freedom;
  freedom.checkpointing = false;  // it is about memory, which is settled
  const Settings& found = session.result.found;
  std::vector<config::AmpMode> amps =
      precisions(found.amp, session.process().device.type(), session.capability);
  const double contends = kContends * best_rate_with(session, found.amp);
  std::erase_if(amps, [&](config::AmpMode amp) {
    return amp != found.amp && best_rate_with(session, amp) < contends;
  });
  take_fastest_network(session, network_candidates(found, freedom, amps, false, found.batch_size),
                       kOfNetworkAgain);
}

// Those of `batches`, the largest first, that a short look does not rule out; adds rows of the
// others. First is the one that was found so far, which is known to work: for the others the time
// may not suffice, and the largest is at the edge of the memory.
std::vector<int64_t> contending_batches(Session& session, const std::vector<int64_t>& batches) {
  if (batches.size() < 2) return batches;
  const TuneResult& result = session.result;
  const double seconds = session.first_look_seconds(), until = (1 - kOfLooks) * session.left();
  const auto candidate = [&](size_t index) {
    Settings one = result.found;
    one.batch_size = batches[index];
    return one;
  };
  const Looks looks = look_along(batches.size(), [&](size_t index) -> std::optional<double> {
    if (session.left() < until) return std::nullopt;
    return session.rate_of(Stage::kBatch, candidate(index), seconds);
  });
  std::vector<int64_t> contenders = {result.found.batch_size};
  for (size_t i = 0; i < looks.rates.size(); ++i) {
    if (batches[i] == result.found.batch_size) continue;
    if (std::ranges::find(looks.contenders, i) != looks.contenders.end()) {
      contenders.push_back(batches[i]);
    } else {
      const bool failed = std::isnan(looks.rates[i]);
      session.result.rows.push_back(
          {.stage = Stage::kBatch,
           .settings = candidate(i),
           .samples_per_second = looks.rates[i],
           .seconds = seconds,
           .note = failed ? "out of memory" : "far slower: a short look"});
    }
  }
  const auto not_looked_at = std::span(batches).subspan(looks.rates.size());
  const size_t left =
      not_looked_at.size() - std::ranges::count(not_looked_at, result.found.batch_size);
  if (left > 0 && !session.stopped()) {
    session.result.left_out.push_back(str("batch: ", left, " of ", batches.size(), " candidates, ",
                                          looks.stopped
                                              ? "for which --minutes do not suffice"
                                              : "which are smaller than two that are far slower"));
  }
  return contenders;
}

void make_range_test(Session& session) {
  constexpr int64_t kSteps = 100, kFewest = 20;
  TuneResult& result = session.result;
  const bool adam = result.config.optimizer.name != config::OptimizerName::kSgd;
  const double first = adam ? 1e-7 : 1e-5, last = adam ? 1 : 10;
  session.leave_run();  // a network that the trials have trained says nothing about rates
  job::Trial trial(session.run_for(result.found),
                   {.batch_size = result.micro_batch_of(result.found.batch_size),
                    .accumulate = result.accumulate_of(result.found.batch_size),
                    .prefetch = result.found.prefetch,
                    .loader_threads = static_cast<int>(result.found.workers)});
  train::StepRunner& runner = trial.runner();
  const log::Quiet quiet;
  runner.step_at(first);  // makes what is made once
  const auto began = std::chrono::steady_clock::now();
  runner.step_at(first);
  const double step = std::max(1e-6, seconds_since(began));
  const double fitting =
      session.left_in_all() / dist::broadcast_object(session.process().host, step);
  if (fitting < static_cast<double>(kFewest)) {
    result.left_out.push_back(str("the range test of the learning rate: ", kFewest, " steps of ",
                                  human_duration(step), " do not fit into --minutes"));
    return;
  }
  const int64_t steps = std::min(kSteps, static_cast<int64_t>(std::min(fitting, 1e6)));
  const std::vector<double> rates = exponential_rates(first, last, steps);
  RangeTest test{.given = result.config.optimizer.lr};
  Divergence divergence(steps);
  for (const double rate : rates) {
    if (session.stopped()) return;
    session.show(Stage::kRate);
    test.rates.push_back(rate);
    test.losses.push_back(runner.step_at(rate));  // the same on all ranks
    if (divergence.add(test.losses.back())) break;
  }
  test.suggestion =
      suggest_rate(rates, test.losses);  // with all rates, which say how far apart the steps are
  result.range_test = std::move(test);
}

}  // namespace

void choose_network(Session& session) {
  TuneResult& result = session.result;
  if (session.stopped()) return;
  const bool memory_is_short = result.largest.end == LargestBatch::End::kLimit;
  const std::vector<Settings> candidates = network_candidates(
      result.found, session.freedom,
      precisions(result.found.amp, session.process().device.type(), session.capability),
      memory_is_short, batch_with_checkpointing(session));
  if (session.freedom.checkpointing && !memory_is_short && !result.found.checkpointing) {
    const bool all_fit = result.largest.end == LargestBatch::End::kMost;
    result.left_out.push_back(
        str("model.checkpointing", all_fit ? ": all batches fit without it, and it costs time"
                                           : ", for which --minutes do not suffice"));
  }
  // One short look says how long a trial takes.
  const std::optional<double> first = session.rate_of(Stage::kNetwork, result.found, kFirstLook);
  if (!first) return;
  session.rate = *first;
  take_fastest_network(session, candidates, kOfNetwork);
  choose_wire(session);
}

void choose_batch(Session& session) {
  TuneResult& result = session.result;
  if (session.stopped() || !session.freedom.batch_size) return;
  const int64_t share = result.keeps_global_batch ? result.share() : 0;
  // What is not given has no odd number: with 48 of 64 samples, a run makes 32 and 32.
  int64_t& found = result.found.batch_size;
  if (found != result.given.batch_size) found = result.micro_batch_of(found);
  const std::vector<int64_t> batches =
      contending_batches(session, batch_candidates(share, result.largest.batch, found));
  if (batches.size() < 2) return;
  std::vector<Settings> candidates;
  std::vector<double> costs;
  for (const int64_t batch : batches) {
    candidates.push_back(result.found);
    candidates.back().batch_size = batch;
    costs.push_back(static_cast<double>(result.micro_batch_of(batch)));
  }
  const auto chosen =
      session.choose(Stage::kBatch, candidates, costs, kAsGood, kOfBatch * session.left());
  if (!chosen || *chosen == result.found) return;
  result.found = *chosen;
  choose_network_again(session);
}

void choose_loader(Session& session) {
  TuneResult& result = session.result;
  if (session.stopped() || (!session.freedom.workers && !session.freedom.prefetch)) return;
  if (session.left() <= 0) {
    result.left_out.emplace_back("loader: all candidates, for which --minutes do not suffice");
    return;
  }
  const std::vector<LoadingSpeed> speeds = loading_speeds(session);
  if (loading_is_next_to_nothing(session, speeds)) return;
  const std::vector<int64_t> ahead =
      prefetch_candidates(session, result.found.prefetch, session.process().device.is_cpu());
  std::vector<Settings> candidates = {result.found};
  for (const int workers :
       worker_candidates(speeds, session.rate, static_cast<int>(result.found.workers))) {
    for (const int64_t prefetch : ahead) {
      Settings one = result.found;
      if (session.freedom.workers) one.workers = workers;
      one.prefetch = prefetch;
      if (std::ranges::find(candidates, one) == candidates.end()) candidates.push_back(one);
    }
  }
  if (candidates.size() < 2) return;
  std::vector<double> costs;  // a thread is more than a batch in memory
  for (const Settings& one : candidates)
    costs.push_back(static_cast<double>(1000 * one.workers + one.prefetch));
  if (const auto chosen =
          session.choose(Stage::kLoader, candidates, costs, kAsGood, kOfLoader * session.left())) {
    result.found = *chosen;
  }
}

void compare(Session& session) {
  TuneResult& result = session.result;
  if (session.stopped() || !(session.rate > 0)) return;
  const bool differs = !(result.found == result.given);
  const double steps = (result.given_fits && differs ? 2 : 1) * kRounds * kStepsOfRound;
  const double seconds = steps * static_cast<double>(result.found_global_batch()) / session.rate;
  const bool whole_fit = seconds <= session.left();
  std::vector<double> given, found;
  bool found_failed = false;
  const auto add = [&](const Settings& settings, std::vector<double>& rates) {
    const auto rate = session.final_rate(settings, whole_fit);
    if (rate) rates.push_back(*rate);
    return rate.has_value();
  };
  for (int round = 0; round < kRounds; ++round) {
    if (session.stopped() || (round > 0 && session.left() <= 0)) break;
    if (result.given_fits) add(result.given, given);
    if (differs && !add(result.found, found)) found_failed = true;
  }
  if (!given.empty()) result.given_rate = spread_of(given);
  if (!differs) {
    result.found_rate = result.given_rate;
  } else if (!found.empty()) {
    result.found_rate = spread_of(found);
  }
  const Settings tried = result.found;
  const std::optional<Spread> tried_rate = result.found_rate;
  const double as_good = takes_less(tried, result.given) ? 1 - kAsGood : 1;
  const bool slower =
      result.given_rate && tried_rate && tried_rate->median < as_good * result.given_rate->median;
  // Beside each other they may be the other way round than in the trials, and what fitted in a
  // trial may not fit again.
  if (slower || (found_failed && result.given_rate)) {
    result.found = result.given;
    result.found_rate = result.given_rate;
    result.largest = session.largest_as_given;
  } else if (found_failed) {
    result.left_out.emplace_back(
        "result: a comparison of what was found, which ran out of memory in it: use a smaller "
        "--batch-size");
  }
  if (result.given_rate) add_result_row(session, result.given, result.given_rate, "as given");
  if (differs && (tried_rate || found_failed)) {
    add_result_row(session, tried, tried_rate,
                   found_failed ? "found, but out of memory"
                   : slower     ? "found, but slower"
                                : "found");
  }
}

void test_rates(Session& session) {
  if (session.stopped()) return;
  try {
    make_range_test(session);
  } catch (...) {
    // Of several ranks the others wait for this one, so that it has to end.
    if (session.process().host.size() > 1 || !dist::missing_memory(std::current_exception())) throw;
    session.result.left_out.emplace_back(
        "the range test of the learning rate, which ran out of memory: use a smaller --batch-size");
  }
}

}  // namespace dtrain::tune

// The network and its batch, by the rates that they have.

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "text/strings.h"
#include "tune/memory_search.h"
#include "tune/stages.h"

namespace dtrain::tune {
namespace {

// Shares of the time that is left when a search begins; what one does not need is there for
// the next.
constexpr double kOfNetwork = 0.25, kOfMemoryAgain = 0.35, kOfLooks = 0.2, kOfBatch = 0.45,
                 kOfNetworkAgain = 0.35, kOfWire = 0.1;
constexpr double kFirstLook = 0.1;  // seconds
// Networks cost the same; the given one is kept where others are no faster
constexpr double kSameNetwork = 0.01;

// From the chosen network to one that is known to fit; `why` goes into the rows from
// `first_row` on.
void go_back_to(TuneState& found, const TunedSettings& before, size_t first_row,
                const std::string& why) {
  for (TrialRow& row : std::span(found.rows).subspan(first_row)) {
    if (row.stage != Stage::kNetwork) continue;
    if (row.chosen) row.note = why;
    row.chosen = row.settings == before;
    if (row.chosen && row.samples_per_second > 0) found.rate = row.samples_per_second;
  }
  found.settings = before;
}

// The network that was chosen by its rate may need more memory than the one before: the search for
// the largest batch again. Rates were measured beside the budget, which on the CPU
// nothing enforces.
void keep_if_it_fits(const Trials& trials, TuneState& found, const TunedSettings& before,
                     size_t first_row) {
  trials.leave_run();  // its memory is for the trials
  MemorySearch search =
      search_memory_again(trials, found.settings, found.largest, kOfMemoryAgain * trials.left());
  if (search.largest.batch > 0) {
    add(found, std::move(search));
    found.settings.batch_size = std::min(found.settings.batch_size, found.largest.batch);
    return;
  }
  found.add(search.rows);
  const bool tried = search.largest.end != LargestBatch::End::kStopped;
  const std::string why =
      tried ? "does not fit into memory" : "has a memory that could not be tried within --minutes";
  if (!trials.stopped()) found.left_out.push_back("network: the fastest " + why);
  go_back_to(found, before, first_row, why);
}

// The given batch if it fits with checkpointing alone, else that of the other candidates.
int64_t batch_with_checkpointing(const Trials& trials, TuneState& found) {
  const TunedRun& run = trials.run();
  TunedSettings given = found.settings;
  given.batch_size = run.given.batch_size;
  given.checkpointing = true;
  const bool may_help = run.freedom[row_of(&TunedSettings::checkpointing)] &&
                        !found.settings.checkpointing &&
                        found.settings.batch_size < given.batch_size;
  if (!may_help) return found.settings.batch_size;
  trials.leave_run();  // its memory is for the trial
  const MemorySearch one = try_memory_of(trials, given, kOfMemoryAgain * trials.left());
  found.add(one.rows);
  return one.largest.batch > 0 ? given.batch_size : found.settings.batch_size;
}

std::vector<config::AmpMode> precisions_here(const Trials& trials, const TunedSettings& settings) {
  return precisions(settings.amp, trials.process().device.type(), trials.run().capability);
}

// The fastest of the networks, if it fits.
void take_fastest_network(const Trials& trials, TuneState& found,
                          const std::vector<TunedSettings>& candidates, double share_of_time) {
  if (candidates.size() < 2) return;
  const size_t first_row = found.rows.size();
  const auto chosen = choose(trials, found, Stage::kNetwork, KeyGroup::kNetwork, candidates,
                             kSameNetwork, share_of_time * trials.left());
  if (!chosen) return;
  const TunedSettings before = found.settings;
  found.settings = *chosen;
  if (chosen->amp != before.amp || chosen->checkpointing != before.checkpointing) {
    keep_if_it_fits(trials, found, before, first_row);
  }
}

// What travels through shared memory has no bytes to save. Rounding has to be worth more than
// a tie.
void choose_wire(const Trials& trials, TuneState& found) {
  constexpr double kTie = 0.03;
  const TunedRun& run = trials.run();
  if (trials.stopped() || !run.freedom[row_of(&TunedSettings::wire)] || run.batches.ranks == 1)
    return;
  const dist::Communicator& gradients = trials.run_for(found.settings).connections->gradients();
  if (gradients.name() == "shared_memory") return;
  const std::vector<TunedSettings> candidates =
      candidates_of(KeyGroup::kWire, found.settings, run.freedom, {});
  const auto chosen = choose(trials, found, Stage::kNetwork, KeyGroup::kWire, candidates, kTie,
                             kOfWire * trials.left());
  if (chosen) found.settings.wire = chosen->wire;
}

// The fastest rate so far of a network with this precision; 0: there is none.
double best_rate_with(const TuneState& found, config::AmpMode amp) {
  double best = 0;
  for (const TrialRow& row : found.rows) {
    if (row.stage == Stage::kNetwork && row.settings.amp == amp)
      best = std::fmax(best, row.samples_per_second);
  }
  return best;
}

void choose_network_again(const Trials& trials, TuneState& found) {
  const config::AmpMode own = found.settings.amp;
  Space space{.amps = precisions_here(trials, found.settings)};
  const double contends = kContends * best_rate_with(found, own);
  std::erase_if(space.amps, [&](config::AmpMode amp) {
    return amp != own && best_rate_with(found, amp) < contends;
  });
  Freedom freedom = trials.run().freedom;
  freedom.reset(row_of(&TunedSettings::checkpointing));  // it is about memory, which is settled
  take_fastest_network(trials, found,
                       candidates_of(KeyGroup::kNetwork, found.settings, freedom, space),
                       kOfNetworkAgain);
}

// Those of the batches that a short look, from the largest down, does not rule out; adds rows of
// the others. First is the one that was found so far, which is known to work: for the others the
// time may not suffice, and the largest is at the edge of the memory.
std::vector<TunedSettings> contending_batches(const Trials& trials, TuneState& found,
                                              std::vector<TunedSettings> batches) {
  if (batches.size() < 2) return batches;
  std::ranges::sort(batches, std::greater(), &TunedSettings::batch_size);
  const double seconds = first_look_seconds(trials.run().options, found.overhead),
               until = (1 - kOfLooks) * trials.left();
  const Looks looks = look_along(batches.size(), [&](size_t index) -> std::optional<double> {
    if (trials.left() < until) return std::nullopt;
    return trials.rate_of(Stage::kBatch, batches[index], seconds, found.overhead);
  });
  std::vector<TunedSettings> contenders = {found.settings};
  for (size_t i = 0; i < looks.rates.size(); ++i) {
    if (batches[i] == found.settings) continue;
    if (std::ranges::find(looks.contenders, i) != looks.contenders.end()) {
      contenders.push_back(batches[i]);
    } else {
      const bool failed = std::isnan(looks.rates[i]);
      found.rows.push_back({.stage = Stage::kBatch,
                            .settings = batches[i],
                            .samples_per_second = looks.rates[i],
                            .seconds = seconds,
                            .note = failed ? "out of memory" : "far slower: a short look"});
    }
  }
  const auto not_looked_at = std::span(batches).subspan(looks.rates.size());
  const size_t left = not_looked_at.size() - std::ranges::count(not_looked_at, found.settings);
  if (left > 0 && !trials.stopped()) {
    found.left_out.push_back(str("batch: ", left, " of ", batches.size(), " candidates, ",
                                 looks.stopped ? "for which --minutes do not suffice"
                                               : "which are smaller than two that are far slower"));
  }
  return contenders;
}

}  // namespace

TuneState choose_network(const Trials& trials, TuneState found) {
  if (trials.stopped()) return found;
  const TunedRun& run = trials.run();
  const bool memory_is_short = found.largest.end == LargestBatch::End::kLimit;
  const std::vector<TunedSettings> candidates =
      candidates_of(KeyGroup::kNetwork, found.settings, run.freedom,
                    {.amps = precisions_here(trials, found.settings),
                     .memory_is_short = memory_is_short,
                     .checkpointed_batch = batch_with_checkpointing(trials, found)});
  const bool may_recompute = run.freedom[row_of(&TunedSettings::checkpointing)];
  if (may_recompute && !memory_is_short && !found.settings.checkpointing) {
    const bool all_fit = found.largest.end == LargestBatch::End::kMost;
    found.left_out.push_back(
        str("model.checkpointing", all_fit ? ": all batches fit without it, and it costs time"
                                           : ", for which --minutes do not suffice"));
  }
  // One short look says how long a trial takes.
  const std::optional<double> first =
      trials.rate_of(Stage::kNetwork, found.settings, kFirstLook, found.overhead);
  if (!first) return found;
  found.rate = *first;
  take_fastest_network(trials, found, candidates, kOfNetwork);
  choose_wire(trials, found);
  return found;
}

TuneState choose_batch(const Trials& trials, TuneState found) {
  const TunedRun& run = trials.run();
  if (trials.stopped() || !run.freedom[row_of(&TunedSettings::batch_size)]) return found;
  // What is not given has no odd number: with 48 of 64 samples, a run makes 32 and 32.
  int64_t& batch_size = found.settings.batch_size;
  if (batch_size != run.given.batch_size) batch_size = run.batches.micro_batch_of(batch_size);
  const int64_t share = run.batches.keeps_global_batch ? run.batches.share() : 0;
  const std::vector<TunedSettings> candidates = contending_batches(
      trials, found,
      candidates_of(KeyGroup::kBatch, found.settings, run.freedom,
                    {.share_of_global_batch = share, .largest_batch = found.largest.batch}));
  if (candidates.size() < 2) return found;
  const auto chosen = choose(trials, found, Stage::kBatch, KeyGroup::kBatch, candidates, kAsGood,
                             kOfBatch * trials.left());
  if (!chosen || *chosen == found.settings) return found;
  found.settings = *chosen;
  choose_network_again(trials, found);
  return found;
}

}  // namespace dtrain::tune

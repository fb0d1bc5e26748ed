// Reader threads × batches read ahead.

#include <algorithm>
#include <limits>

#include "dist/object_collectives.h"
#include "job/data_bench.h"
#include "text/strings.h"
#include "tune/stages.h"

namespace dtrain::tune {
namespace {

constexpr double kOfLoadingAlone = 0.1, kOfLoader = 0.5;  // shares of the time that is left

// Of loading alone, by reader threads; adds rows.
std::vector<LoadingSpeed> loading_speeds(const Trials& trials, TuneState& found) {
  const auto own = static_cast<int>(found.settings.workers);
  const int cores = dist::broadcast_object(trials.process().host, trials.process().cores);
  const std::vector<int> threads = trials.run().freedom[row_of(&TunedSettings::workers)]
                                       ? job::threads_to_compare(cores, own)
                                       : std::vector{own};
  const double each = std::clamp(
      kOfLoadingAlone * trials.left() / static_cast<double>(2 * threads.size()), 0.05, 0.5);
  trials.time().show(Stage::kLoader);
  trials.leave_run();  // which may have been made with another batch
  const job::DataBench bench =
      job::bench_data(trials.run_for(found.settings),
                      {.threads = threads, .rounds = 1, .seconds = each, .cold = false});
  std::vector<LoadingSpeed> speeds;
  for (const job::LoadingRate& rate : bench.rates) {
    if (rate.threads == 0 || rate.cold) continue;
    speeds.push_back({rate.threads, rate.samples_per_second.median});
    TunedSettings settings = found.settings;
    settings.workers = rate.threads;
    found.rows.push_back({.stage = Stage::kLoader,
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
bool loading_is_next_to_nothing(TuneState& found, const std::vector<LoadingSpeed>& speeds) {
  const int64_t workers = found.settings.workers;
  const auto own = std::ranges::find(speeds, static_cast<int>(workers), &LoadingSpeed::threads);
  if (own == speeds.end() || !(found.rate < kAsGood * own->samples_per_second)) return false;
  for (TrialRow& row : found.rows) {
    if (row.stage != Stage::kLoader || row.settings.workers != workers) continue;
    row.chosen = true;
    row.note = str("loading alone: ", fixed(own->samples_per_second / found.rate, 0),
                   " times as fast as the network, so that other settings gain nothing");
  }
  return true;
}

// Batches that can be read ahead. On the CPU they take memory of the same budget.
double most_ahead(const Trials& trials, const TuneState& found) {
  const TrialMemory& memory = found.memory;
  if (!trials.process().device.is_cpu() || memory.batch_bytes == 0)
    return std::numeric_limits<double>::infinity();
  const double spare = static_cast<double>(trials.run().budget.bytes) - memory.process_bytes;
  return static_cast<double>(found.settings.prefetch) + spare / memory.batch_bytes;
}

}  // namespace

TuneState choose_loader(const Trials& trials, TuneState found) {
  const TunedRun& run = trials.run();
  const Freedom& freedom = run.freedom;
  if (trials.stopped() ||
      (!freedom[row_of(&TunedSettings::workers)] && !freedom[row_of(&TunedSettings::prefetch)]))
    return found;
  if (trials.left() <= 0) {
    found.left_out.emplace_back("loader: all candidates, for which --minutes do not suffice");
    return found;
  }
  const std::vector<LoadingSpeed> speeds = loading_speeds(trials, found);
  if (loading_is_next_to_nothing(found, speeds)) return found;
  const std::vector<TunedSettings> candidates = candidates_of(
      KeyGroup::kLoader, found.settings, freedom,
      {.speeds = speeds, .needed = found.rate, .most_ahead = most_ahead(trials, found)});
  if (candidates.size() < 2) return found;
  const auto chosen = choose(trials, found, Stage::kLoader, KeyGroup::kLoader, candidates, kAsGood,
                             kOfLoader * trials.left());
  if (chosen) found.settings = *chosen;
  return found;
}

}  // namespace dtrain::tune

#include "tune/memory_search.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <string>
#include <utility>

#include "core/clock.h"
#include "core/log.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "text/strings.h"
#include "tune/memory_trial.h"

namespace dtrain::tune {
namespace {

struct SharedTrial {  // result of one rank; travels to the others
  bool tried = false, fits = false, ended = false;
  double bytes = 0, batch_bytes = 0, sample_bytes = 0;
};

// The process of this rank; nothing is tried where a lower rank has the same device.
SharedTrial try_here(const Trials& trials, const TunedSettings& settings, double seconds,
                     std::string& why) {
  const Budget& budget = trials.run().budget;
  if (!budget.first_on_device) return {};
  config::Config config = trials.run().config();
  apply(settings, config);
  const at::Device device = trials.process().device;
  const MemoryTrialOptions options{
      .batch_size = settings.batch_size,
      .gpu = device.is_cpu() ? -1 : int{device.index()},
      .threads = at::get_num_threads(),
      .kill_bytes = settings.batch_size == 1 ? budget.host_bytes : budget.kill_bytes,
      .seconds = seconds};
  const MemoryTrial trial = try_memory(config, options, [&] {
    trials.time().show_again();
    return trials.time().stop_of_this_rank().load();
  });
  why = trial.out_of_memory;
  const bool known = trial.out_of_memory.empty();
  return {.tried = true,
          .fits = known && trial.process_bytes <= budget.bytes,
          .ended = trial.ended,
          .bytes = known ? static_cast<double>(trial.process_bytes) : std::nan(""),
          .batch_bytes = static_cast<double>(trial.memory.batch),
          .sample_bytes = static_cast<double>(trial.memory.activations + trial.memory.batch) /
                          static_cast<double>(settings.batch_size)};
}

// That of the rank that needs most; nullopt if one of them could not end.
std::optional<BatchTrial> worst_of(const std::vector<SharedTrial>& ranks,
                                   const std::vector<std::string>& reasons, int64_t batch) {
  BatchTrial worst{.batch = batch, .fits = true, .bytes = 0};
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const SharedTrial& one = ranks[rank];
    if (one.ended) return std::nullopt;
    if (!one.tried) continue;
    worst.fits = worst.fits && one.fits;
    if (!(one.bytes <= worst.bytes))
      worst.bytes = one.bytes + worst.bytes * 0;  // one NaN makes it NaN
    if (worst.why.empty()) worst.why = reasons[rank];
    if (!(worst.sample_bytes >= one.sample_bytes)) worst.sample_bytes = one.sample_bytes;
  }
  return worst;
}

TrialRow row_of(const TunedSettings& settings, const BatchTrial& trial) {
  TrialRow row{.stage = Stage::kMemory,
               .settings = settings,
               .memory_bytes = trial.bytes,
               .note = trial.fits ? "fits" : trial.why};
  if (!trial.fits && row.note.empty()) row.note = "more than the budget";
  log::info(str(name_of(row.stage), ": batch ", trial.batch, ": ",
                std::isnan(trial.bytes) ? "" : human_bytes(trial.bytes) + ", ", row.note));
  return row;
}

// Adds its row and, if it fits, its memory. nullopt: it could not end.
std::optional<BatchTrial> try_batch(const Trials& trials, MemorySearch& search,
                                    TunedSettings settings, int64_t batch, double seconds) {
  if (trials.stopped()) return std::nullopt;
  trials.time().show(Stage::kMemory, /*begins_trial=*/true);
  settings.batch_size = batch;
  dist::Communicator& host = trials.process().host;
  SharedTrial mine;
  std::string why;
  std::exception_ptr failure;
  try {
    mine = try_here(trials, settings, seconds, why);
  } catch (...) {
    failure = std::current_exception();
  }
  dist::agree(host, [&] {
    if (failure) std::rethrow_exception(failure);
  });
  const std::vector<SharedTrial> all = dist::all_gather_object(host, mine);
  const std::optional<BatchTrial> worst = worst_of(all, dist::all_gather_object(host, why), batch);
  if (!worst) return std::nullopt;
  if (worst->fits) {
    search.memory = {
        .process_bytes = worst->bytes,
        .batch_bytes = std::ranges::max(all, {}, &SharedTrial::batch_bytes).batch_bytes};
  }
  search.rows.push_back(row_of(settings, *worst));
  return worst;
}

}  // namespace

void add(TuneState& found, MemorySearch search) {
  found.add(search.rows);
  if (search.largest.batch > 0) found.memory = search.memory;
  found.largest = std::move(search.largest);
}

MemorySearch search_memory(const Trials& trials, const TunedSettings& settings, int64_t start,
                           double seconds) {
  const auto began = std::chrono::steady_clock::now();
  const TunedRun& run = trials.run();
  bool any_fits = false;
  MemorySearch search;
  search.largest = tune::find_largest_batch(
      BatchSearch{
          .start = start, .most = run.most, .limit_bytes = static_cast<double>(run.budget.bytes)},
      [&](int64_t batch) -> std::optional<BatchTrial> {
        const double rest =
            dist::broadcast_object(trials.process().host, seconds - seconds_since(began));
        if (rest <= 0 && any_fits) return std::nullopt;
        const auto trial = try_batch(trials, search, settings, batch,
                                     std::max({rest, trials.left(), kShortestTrial}));
        any_fits = any_fits || (trial && trial->fits);
        return trial;
      });
  return search;
}

MemorySearch search_memory_again(const Trials& trials, const TunedSettings& settings,
                                 const LargestBatch& largest, double seconds) {
  if (!trials.run().freedom[row_of(&TunedSettings::batch_size)])
    return try_memory_of(trials, settings, seconds);
  // From what is to be kept, which may be more with checkpointing.
  return search_memory(trials, settings, std::max(largest.batch, settings.batch_size), seconds);
}

MemorySearch try_memory_of(const Trials& trials, const TunedSettings& settings, double seconds) {
  MemorySearch search;
  const auto trial =
      try_batch(trials, search, settings, settings.batch_size, std::max(seconds, kShortestTrial));
  if (!trial) return search;
  search.largest = {.batch = trial->fits ? trial->batch : 0,
                    .end = trial->fits ? LargestBatch::End::kMost : LargestBatch::End::kLimit,
                    .trials = {*trial}};
  return search;
}

}  // namespace dtrain::tune

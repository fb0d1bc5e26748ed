#include "tune/memory_stage.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "catalog/gpus.h"
#include "core/error.h"
#include "core/log.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "text/strings.h"
#include "tune/memory_search.h"
#include "tune/memory_trial.h"

namespace dtrain::tune {
namespace {

constexpr double kShare = 0.35, kShareOfOthers = 0.2;  // shares of the minutes for one search
constexpr double kForTheMessage = 60;                  // seconds to count what one sample needs

bool has_half(config::AmpMode amp) {
  return amp == config::AmpMode::kBf16 || amp == config::AmpMode::kFp16;
}

// Not even one sample fits as it is given: with activations that are recomputed, then in a smaller
// type as well.
bool finds_room_otherwise(const Trials& trials, TuneState& found) {
  const TunedRun& run = trials.run();
  TunedSettings other = run.given;
  const config::AmpMode smallest =
      precisions(other.amp, trials.process().device.type(), run.capability).front();
  const auto fits = [&] {
    add(found,
        search_memory(trials, other, 1, kShareOfOthers * trials.time().minutes_in_seconds()));
    if (found.largest.batch > 0) found.settings = other;
    return found.largest.batch > 0 || trials.stopped();
  };
  if (run.freedom[row_of(&TunedSettings::checkpointing)] && !other.checkpointing) {
    other.checkpointing = true;
    if (fits()) return true;
  }
  if (!run.freedom[row_of(&TunedSettings::amp)] || smallest == other.amp) return false;
  other.amp = smallest;
  return fits();
}

// What the tensors of one sample need, counted on the host: a GPU only says that its memory
// is full.
std::string needed_for_one(const Trials& trials, int threads) {
  const TunedRun& run = trials.run();
  TunedSettings settings = run.given;
  settings.batch_size = 1;
  settings.amp = config::AmpMode::kFp32;
  config::Config config = run.config();
  apply(settings, config);
  const MemoryTrial trial = try_memory(config,
                                       {.batch_size = 1,
                                        .threads = threads,
                                        .kill_bytes = run.budget.host_bytes,
                                        .seconds = kForTheMessage},
                                       [&] { return trials.time().stop_of_this_rank().load(); });
  if (trial.ended) return "what it needs could not be counted";
  if (!trial.out_of_memory.empty()) return trial.out_of_memory;
  const train::StepMemory& m = trial.memory;
  const auto shown = [](int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  return str("its tensors need ", shown(m.total()), " in fp32 (weights ", shown(m.weights),
             ", gradients ", shown(m.gradients), ", moments ", shown(m.moments),
             ", activations of one sample ", shown(m.activations), ")");
}

std::string budget_text(const TunedRun& run) {
  return str("the ", human_bytes(static_cast<double>(run.budget.bytes)), " of ", run.budget.of_what,
             " that a rank may use");
}

[[noreturn]] void fail_nothing_fits(const Trials& trials, const LargestBatch& largest) {
  const TunedRun& run = trials.run();
  dist::agree_on_rank0(trials.process().host, [&] {
    const BatchTrial& trial = last_trial(largest);
    std::string needed =
        std::isnan(trial.bytes) ? trial.why : str("it needs ", human_bytes(trial.bytes));
    if (std::isnan(trial.bytes) && !trials.process().device.is_cpu()) {
      needed += str("; ", needed_for_one(trials, at::get_num_threads()));
    }
    throw DeviceError(str("a batch of one sample of ", run.config().model.name,
                          " does not fit into ", budget_text(run), ": ", needed,
                          ". Use a smaller network or model.image_size, optimizer.name sgd, fewer "
                          "ranks on the device, ",
                          run.options.memory_budget > 0
                              ? "a device with more memory, or a larger --memory-budget"
                              : "or a device with more memory"));
  });
  throw Error("a failure that all ranks agreed on did not end the command");
}

// Where the time ended in the search, the given batch may lie between one that fits and one that
// does not.
void try_given_batch(const Trials& trials, TuneState& found) {
  LargestBatch& largest = found.largest;
  const TunedSettings& given = trials.run().given;
  const bool ruled_out = std::ranges::any_of(largest.trials, [&](const BatchTrial& trial) {
    return !trial.fits && trial.batch <= given.batch_size;
  });
  if (largest.end != LargestBatch::End::kStopped || largest.batch >= given.batch_size || ruled_out)
    return;
  const MemorySearch one = try_memory_of(trials, given, kShortestTrial);
  found.add(one.rows);
  largest.trials.insert(largest.trials.end(), one.largest.trials.begin(), one.largest.trials.end());
  if (one.largest.batch == 0) return;
  largest.batch = one.largest.batch;
  found.memory = one.memory;
}

// Where the search begins; sets `start` and `card`.
int64_t first_batch(const Trials& trials, TuneState& found) {
  const TunedRun& run = trials.run();
  const job::ProcessContext& process = trials.process();
  if (process.device.is_cpu()) return run.given.batch_size;
  const job::Card card = job::card_of_run(process.host, process.device);
  const SearchStart start = search_start(card, run.config(), run.given, run.budget.bytes);
  const bool whole =
      run.options.memory_budget == 0 && run.budget.bytes == share_of_memory(card.memory_bytes, 1);
  if (whole && catalog::gpu_named(card.name) != nullptr) found.card = card.name;
  if (start.source.empty()) return start.batch;
  found.start = str("starts from ", start.source, ": a batch of ", std::min(start.batch, run.most));
  log::info(str(name_of(Stage::kMemory), ": ", found.start));
  return start.batch;
}

}  // namespace

SearchStart search_start(const job::Card& card, const config::Config& config,
                         const TunedSettings& given, int64_t budget) {
  const bool half = has_half(given.amp);
  if (const int64_t measured = job::measured_batch_of(card, config, half, given.checkpointing);
      measured > 0) {
    const auto all = static_cast<double>(share_of_memory(card.memory_bytes, 1));
    const double part = std::min(1.0, static_cast<double>(budget) / all);
    const auto batch = static_cast<int64_t>(part * static_cast<double>(measured));
    return {.batch = std::max<int64_t>(1, batch), .source = "a measurement on " + card.name};
  }
  const auto need = job::batch_memory(config, half, given.checkpointing);
  if (!need) return {.batch = given.batch_size, .source = ""};
  return {.batch = std::max(given.batch_size, job::fitting_batch(*need, budget)),
          .source = "an estimate for " + card.name};
}

const BatchTrial& last_trial(const LargestBatch& search) {
  if (search.end == LargestBatch::End::kStopped || search.trials.empty()) {
    throw Error("no trial of memory could end within --minutes: give more of them");
  }
  return search.trials.back();
}

TuneState find_largest_batch(const Trials& trials) {
  const TunedRun& run = trials.run();
  dist::Communicator& host = trials.process().host;
  TuneState found{.settings = run.given};
  for (const std::string& kept : run.kept) found.left_out.push_back(kept + ": given by a flag");
  const int64_t start = first_batch(trials, found);
  add(found, search_memory(trials, run.given, start, kShare * trials.time().minutes_in_seconds()));
  try_given_batch(trials, found);
  found.largest_as_given = found.largest;
  if (trials.stopped()) return found;
  dist::agree_on_rank0(host, [&] {
    if (found.largest.batch == 0 && found.largest.end == LargestBatch::End::kStopped) {
      throw Error(str(
          "no batch that fits into memory was found from ", start,
          " on: a trial could not end in the ", human_duration(trials.time().minutes_in_seconds()),
          " of --minutes. Give more of them, or begin with a smaller train.batch_size"));
    }
  });
  const int64_t given = run.given.batch_size;
  found.given_fits = given <= found.largest.batch;
  if (found.largest.batch == 0 && !finds_room_otherwise(trials, found))
    fail_nothing_fits(trials, found.largest);
  if (found.largest.batch == 0) return found;  // interrupted
  dist::agree_on_rank0(host, [&] {
    if (!run.freedom[row_of(&TunedSettings::batch_size)] && found.largest.batch < given) {
      throw DeviceError(str("a batch of ", given, " does not fit into ", budget_text(run), "; ",
                            found.largest.batch,
                            " does. Leave --batch-size out, and tune finds it"));
    }
  });
  found.settings.batch_size = std::min(given, found.largest.batch);
  return found;
}

}  // namespace dtrain::tune

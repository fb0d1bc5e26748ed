#include "tune/memory_stage.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

#include "catalog/gpus.h"
#include "core/error.h"
#include "core/log.h"
#include "core/stopwatch.h"
#include "core/strings.h"
#include "dist/agree.h"
#include "dist/object_collectives.h"
#include "job/preset.h"
#include "tune/memory_trial.h"

namespace dtrain::tune {
namespace {

constexpr double kShare = 0.35, kShareOfOthers = 0.2;  // of the minutes, for a search
constexpr double kShortestTrial = 30;  // seconds: a process needs some only to start
constexpr double kForTheMessage = 60;  // seconds to count what one sample needs

bool has_half(config::AmpMode amp) {
  return amp == config::AmpMode::kBf16 || amp == config::AmpMode::kFp16;
}

struct SharedTrial {  // of a rank; travels to the others
  bool tried = false, fits = false, ended = false;
  double bytes = 0, batch_bytes = 0, sample_bytes = 0;
};

// The process of this rank; nothing is tried where a lower rank has the same device.
SharedTrial try_here(Session& session, const Settings& settings, double seconds, std::string& why) {
  const Budget& budget = session.budget;
  if (!budget.first_on_device) return {};
  config::Config config = session.result.config;
  apply(settings, config);
  const at::Device device = session.process().device;
  const MemoryTrialOptions options{
      .batch_size = settings.batch_size,
      .gpu = device.is_cpu() ? -1 : int{device.index()},
      .threads = at::get_num_threads(),
      .kill_bytes = settings.batch_size == 1 ? budget.host_bytes : budget.kill_bytes,
      .seconds = seconds};
  const MemoryTrial trial = try_memory(config, options, [&] {
    session.show_again();
    return session.stop().load();
  });
  why = trial.out_of_memory;
  const bool known = trial.out_of_memory.empty();
  return {.tried = true,
          .fits = known && trial.process_bytes <= budget.bytes,
          .ended = trial.stopped || trial.too_long,
          .bytes = known ? static_cast<double>(trial.process_bytes) : std::nan(""),
          .batch_bytes = static_cast<double>(trial.memory.batch),
          .sample_bytes = static_cast<double>(trial.memory.activations + trial.memory.batch) /
                          static_cast<double>(settings.batch_size)};
}

void add_row(Session& session, const Settings& settings, const BatchTrial& trial) {
  Row row{.stage = Stage::kMemory,
          .settings = settings,
          .memory_bytes = trial.bytes,
          .note = trial.fits ? "fits" : trial.why};
  if (!trial.fits && row.note.empty()) row.note = "more than the budget";
  log::info(str(name_of(row.stage), ": batch ", trial.batch, ": ",
                std::isnan(trial.bytes) ? "" : human_bytes(trial.bytes) + ", ", row.note));
  session.result.rows.push_back(std::move(row));
}

std::optional<BatchTrial> try_batch(Session& session, Settings settings, int64_t batch,
                                    double seconds) {
  if (session.stopped()) return std::nullopt;
  session.begin_trial(Stage::kMemory);
  settings.batch_size = batch;
  dist::Communicator& host = session.process().host;
  SharedTrial mine;
  std::string why;
  std::exception_ptr failure;
  try {
    mine = try_here(session, settings, seconds, why);
  } catch (...) {
    failure = std::current_exception();
  }
  dist::agree(host, [&] {
    if (failure) std::rethrow_exception(failure);
  });
  const std::vector<SharedTrial> all = dist::all_gather_object(host, mine);
  const std::vector<std::string> reasons = dist::all_gather_object(host, why);
  BatchTrial worst{.batch = batch, .fits = true, .bytes = 0};
  double batch_bytes = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].ended) return std::nullopt;
    if (!all[rank].tried) continue;
    worst.fits = worst.fits && all[rank].fits;
    if (!(all[rank].bytes <= worst.bytes))
      worst.bytes = all[rank].bytes + worst.bytes * 0;  // one NaN makes it NaN
    if (worst.why.empty()) worst.why = reasons[rank];
    batch_bytes = std::max(batch_bytes, all[rank].batch_bytes);
    if (!(worst.sample_bytes >= all[rank].sample_bytes))
      worst.sample_bytes = all[rank].sample_bytes;
  }
  if (worst.fits) {
    session.process_bytes = worst.bytes;
    session.batch_bytes = batch_bytes;
  }
  add_row(session, settings, worst);
  return worst;
}

// Not even one sample fits as it is given: with activations that are recomputed, then in a smaller
// type as well.
bool finds_room_otherwise(Session& session) {
  Settings other = session.result.given;
  const config::AmpMode smallest =
      precisions(other.amp, session.process().device.type(), session.capability).front();
  const auto fits = [&] {
    session.result.largest =
        search_memory(session, other, 1, kShareOfOthers * session.minutes_in_seconds());
    if (session.result.largest.batch > 0) session.result.found = other;
    return session.result.largest.batch > 0 || session.stopped();
  };
  if (session.freedom.checkpointing && !other.checkpointing) {
    other.checkpointing = true;
    if (fits()) return true;
  }
  if (!session.freedom.amp || smallest == other.amp) return false;
  other.amp = smallest;
  return fits();
}

// What the tensors of one sample need, counted on the host: a GPU only says that its memory
// is full.
std::string needed_for_one(const Session& session, Settings settings, int threads) {
  settings.batch_size = 1;
  settings.amp = config::AmpMode::kFp32;
  config::Config config = session.result.config;
  apply(settings, config);
  const MemoryTrial trial = try_memory(config,
                                       {.batch_size = 1,
                                        .threads = threads,
                                        .kill_bytes = session.budget.host_bytes,
                                        .seconds = kForTheMessage},
                                       [&] { return session.stop().load(); });
  if (trial.stopped || trial.too_long) return "what it needs could not be counted";
  if (!trial.out_of_memory.empty()) return trial.out_of_memory;
  const train::StepMemory& m = trial.memory;
  const auto shown = [](int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  return str("its tensors need ", shown(m.total()), " in fp32 (weights ", shown(m.weights),
             ", gradients ", shown(m.gradients), ", moments ", shown(m.moments),
             ", activations of one sample ", shown(m.activations), ")");
}

[[noreturn]] void fail_nothing_fits(Session& session) {
  dist::agree_on_rank0(session.process().host, [&] {
    const TuneResult& result = session.result;
    const BatchTrial& trial = last_trial(result.largest);
    std::string needed =
        std::isnan(trial.bytes) ? trial.why : str("it needs ", human_bytes(trial.bytes));
    if (std::isnan(trial.bytes) && !session.process().device.is_cpu()) {
      needed += str("; ", needed_for_one(session, result.given, at::get_num_threads()));
    }
    throw DeviceError(str("a batch of one sample of ", result.config.model.name,
                          " does not fit into the ", human_bytes(result.budget_bytes), " of ",
                          session.budget.of_what, " that a rank may use: ", needed,
                          ". Use a smaller network or model.image_size, optimizer.name sgd, fewer "
                          "ranks on the device, ",
                          session.options().memory_budget > 0
                              ? "a device with more memory, or a larger --memory-budget"
                              : "or a device with more memory"));
  });
  throw Error("a failure that all ranks agreed on did not end the command");
}

// Where the time ended in the search, the given batch may lie between one that fits and one that
// does not.
void try_given_batch(Session& session) {
  LargestBatch& largest = session.result.largest;
  const int64_t given = session.result.given.batch_size;
  const bool ruled_out = std::ranges::any_of(
      largest.trials, [&](const BatchTrial& trial) { return !trial.fits && trial.batch <= given; });
  if (largest.end != LargestBatch::End::kStopped || largest.batch >= given || ruled_out) return;
  const auto trial = try_batch(session, session.result.given, given, kShortestTrial);
  if (!trial) return;
  largest.trials.push_back(*trial);
  if (trial->fits) largest.batch = given;
}

int64_t first_batch(Session& session) {
  TuneResult& result = session.result;
  if (session.process().device.is_cpu()) return result.given.batch_size;
  const job::Card card = job::card_of_run(session.process().host, session.process().device);
  const SearchStart start = search_start(card, result.config, result.given, session.budget.bytes);
  const bool whole = session.options().memory_budget == 0 &&
                     session.budget.bytes == share_of_memory(card.memory_bytes, 1);
  if (whole && catalog::gpu_named(card.name) != nullptr) result.card = card.name;
  if (start.source.empty()) return start.batch;
  result.start =
      str("starts from ", start.source, ": a batch of ", std::min(start.batch, session.most));
  log::info(str(name_of(Stage::kMemory), ": ", result.start));
  return start.batch;
}

}  // namespace

SearchStart search_start(const job::Card& card, const config::Config& config, const Settings& given,
                         int64_t budget) {
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

LargestBatch search_memory(Session& session, const Settings& settings, int64_t start,
                           double seconds) {
  const auto began = std::chrono::steady_clock::now();
  bool any_fits = false;
  return tune::find_largest_batch(
      BatchSearch{.start = start, .most = session.most, .limit_bytes = session.result.budget_bytes},
      [&](int64_t batch) -> std::optional<BatchTrial> {
        const double rest =
            dist::broadcast_object(session.process().host, seconds - seconds_since(began));
        if (rest <= 0 && any_fits) return std::nullopt;
        const auto trial =
            try_batch(session, settings, batch, std::max({rest, session.left(), kShortestTrial}));
        any_fits = any_fits || (trial && trial->fits);
        return trial;
      });
}

LargestBatch search_memory_again(Session& session, const Settings& settings, double seconds) {
  if (session.freedom
          .batch_size) {  // from what is to be kept, which may be more with checkpointing
    const int64_t start = std::max(session.result.largest.batch, settings.batch_size);
    return search_memory(session, settings, start, seconds);
  }
  const auto trial =
      try_batch(session, settings, settings.batch_size, std::max(seconds, kShortestTrial));
  if (!trial) return {};
  const bool fits = trial->fits;
  return {.batch = fits ? trial->batch : 0,
          .end = fits ? LargestBatch::End::kMost : LargestBatch::End::kLimit,
          .trials = {*trial}};
}

bool fits_in_memory(Session& session, const Settings& settings, double seconds) {
  const double process_bytes = session.process_bytes, batch_bytes = session.batch_bytes;
  session.leave_run();  // its memory is for the trial
  const auto trial =
      try_batch(session, settings, settings.batch_size, std::max(seconds, kShortestTrial));
  session.process_bytes = process_bytes;
  session.batch_bytes = batch_bytes;
  return trial && trial->fits;
}

const BatchTrial& last_trial(const LargestBatch& search) {
  if (search.end == LargestBatch::End::kStopped || search.trials.empty()) {
    throw Error("no trial of memory could end within --minutes: give more of them");
  }
  return search.trials.back();
}

void find_largest_batch(Session& session) {
  TuneResult& result = session.result;
  dist::Communicator& host = session.process().host;
  const int64_t start = first_batch(session);
  result.largest =
      search_memory(session, result.given, start, kShare * session.minutes_in_seconds());
  try_given_batch(session);
  session.largest_as_given = result.largest;
  if (session.stopped()) return;
  dist::agree_on_rank0(host, [&] {
    if (result.largest.batch == 0 && result.largest.end == LargestBatch::End::kStopped) {
      throw Error(
          str("no batch that fits into memory was found from ", start,
              " on: a trial could not end in the ", human_duration(session.minutes_in_seconds()),
              " of --minutes. Give more of them, or begin with a smaller train.batch_size"));
    }
  });
  result.given_fits = result.given.batch_size <= result.largest.batch;
  if (result.largest.batch == 0 && !finds_room_otherwise(session)) fail_nothing_fits(session);
  if (result.largest.batch == 0) return;  // interrupted
  dist::agree_on_rank0(host, [&] {
    if (!session.freedom.batch_size && result.largest.batch < result.given.batch_size) {
      throw DeviceError(str("a batch of ", result.given.batch_size, " does not fit into the ",
                            human_bytes(result.budget_bytes), " of ", session.budget.of_what,
                            " that a rank may use; ", result.largest.batch,
                            " does. Leave --batch-size out, and tune finds it"));
    }
  });
  result.found.batch_size = std::min(result.given.batch_size, result.largest.batch);
}

}  // namespace dtrain::tune

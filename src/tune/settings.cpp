#include "tune/settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "config/table.h"
#include "core/error.h"
#include "core/strings.h"
#include "train/precision.h"

namespace dtrain::tune {

using config::AmpMode;

namespace {

constexpr std::array<std::pair<const char*, bool Freedom::*>, 7> kFreeKeys = {{
    {"train.batch_size", &Freedom::batch_size},
    {"train.amp", &Freedom::amp},
    {"model.channels_last", &Freedom::channels_last},
    {"model.checkpointing", &Freedom::checkpointing},
    {"dist.wire", &Freedom::wire},
    {"data.workers", &Freedom::workers},
    {"data.prefetch", &Freedom::prefetch},
}};

// The flag that sets a key; "": none does.
std::string flag_of(const config::Loaded& loaded, const char* path) {
  const auto place = loaded.places.find(path);
  return place != loaded.places.end() && place->second.starts_with("--") ? place->second : "";
}

}  // namespace

void apply(const Settings& settings, config::Config& config) {
  config.train.batch_size = settings.batch_size;
  config.train.amp = settings.amp;
  config.model.channels_last = settings.channels_last;
  config.model.checkpointing = settings.checkpointing;
  config.dist.wire = settings.wire;
  config.data.workers = settings.workers;
  config.data.prefetch = settings.prefetch;
}

std::string text_of(const Settings& s) {
  return str("batch ", s.batch_size, ", ", s.amp, s.channels_last ? ", channels_last" : "",
             s.checkpointing ? ", checkpointing" : "",
             s.wire == config::Wire::kFp32 ? "" : str(", ", s.wire, " between ranks"), ", ",
             s.workers, s.workers == 1 ? " reader, " : " readers, ", s.prefetch, " ahead");
}

Freedom freedom_of(const config::Loaded& loaded) {
  Freedom freedom;
  config::Config config = loaded.config;
  const std::vector<config::Option> table = config::describe(config);
  for (const auto& [path, is_free] : kFreeKeys) {
    const auto option = std::ranges::find(table, path, &config::Option::path);
    freedom.*is_free = flag_of(loaded, path).empty() && option != table.end() &&
                       option->scope.holds(loaded.config);
  }
  freedom.amp = freedom.amp && config.train.amp != AmpMode::kFp64;
  return freedom;
}

std::vector<std::string> kept_by_flags(const config::Loaded& loaded) {
  std::vector<std::string> kept;
  for (const auto& [path, is_free] : kFreeKeys) {
    if (const std::string flag = flag_of(loaded, path); !flag.empty())
      kept.push_back(str(path, " (", flag, ")"));
  }
  return kept;
}

std::vector<AmpMode> precisions(AmpMode given, at::DeviceType device, int capability) {
  const auto works = [&](AmpMode mode) {
    try {
      train::choose_precision(mode, device, capability);
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  };
  std::vector<AmpMode> found;
  for (const AmpMode mode : {AmpMode::kBf16, AmpMode::kFp16, AmpMode::kTf32, AmpMode::kFp32}) {
    const bool beside_bf16 = mode == AmpMode::kFp16 && works(AmpMode::kBf16);
    if (mode == given || (works(mode) && !beside_bf16)) found.push_back(mode);
  }
  return found;
}

std::vector<Settings> network_candidates(const Settings& given, const Freedom& freedom,
                                         const std::vector<AmpMode>& amps, bool memory_is_short,
                                         int64_t checkpointed_batch) {
  std::vector<Settings> candidates = {given};
  for (const AmpMode amp : freedom.amp ? amps : std::vector{given.amp}) {
    for (const bool channels_last : {true, false}) {
      for (const bool checkpointing : {false, true}) {
        Settings one = given;
        one.amp = amp;
        one.channels_last = channels_last;
        one.checkpointing = checkpointing;
        if (one == given || (!freedom.channels_last && channels_last != given.channels_last))
          continue;
        const bool other = checkpointing != given.checkpointing;
        if (other && (!freedom.checkpointing || (checkpointing && !memory_is_short))) continue;
        if (other && checkpointing) one.batch_size = checkpointed_batch;
        candidates.push_back(one);
      }
    }
  }
  return candidates;
}

bool takes_less(const Settings& a, const Settings& b) {
  const bool no_more =
      a.batch_size <= b.batch_size && a.workers <= b.workers && a.prefetch <= b.prefetch;
  return no_more &&
         (a.batch_size < b.batch_size || a.workers < b.workers || a.prefetch < b.prefetch);
}

int differences(const Settings& a, const Settings& b) {
  return int{a.amp != b.amp} + int{a.channels_last != b.channels_last} +
         int{a.checkpointing != b.checkpointing} + int{a.wire != b.wire};
}

std::vector<int64_t> batch_candidates(int64_t share, int64_t most, int64_t given) {
  constexpr size_t kMost = 8;
  std::vector<int64_t> batches;
  const auto add = [&](int64_t batch) {
    if (batch >= 1 && batch <= most && std::ranges::find(batches, batch) == batches.end())
      batches.push_back(batch);
  };
  if (share > 0) {
    for (int64_t parts = (share + most - 1) / most; parts <= share && batches.size() < kMost;
         parts *= 2) {
      add((share + parts - 1) / parts);
    }
    // The run cuts its share into equal parts: this one is what is given, by another number.
    const int64_t given_parts = (share + given - 1) / given;
    if (given <= most) std::erase(batches, (share + given_parts - 1) / given_parts);
  } else {
    add(most);
    int64_t power = 1;
    while (power <= most / 2) power *= 2;
    for (; power >= 1 && batches.size() < kMost; power /= 2) add(power);
  }
  add(given);
  std::sort(batches.rbegin(), batches.rend());
  return batches;
}

std::vector<int> worker_candidates(std::vector<LoadingSpeed> speeds, double needed, int given) {
  constexpr double kKeepsUp =
      0.9;  // alone; beside a network it may be slower, which the trials of steps show
  constexpr size_t kMost = 3, kFastest = 2;
  std::sort(speeds.begin(), speeds.end(),
            [](const auto& a, const auto& b) { return a.threads < b.threads; });
  std::vector<int> workers;
  for (const LoadingSpeed& speed : speeds) {
    if (speed.samples_per_second >= kKeepsUp * needed && workers.size() < kMost)
      workers.push_back(speed.threads);
  }
  if (workers.empty()) {
    std::stable_sort(speeds.begin(), speeds.end(), [](const auto& a, const auto& b) {
      return a.samples_per_second > b.samples_per_second;
    });
    for (size_t i = 0; i < std::min(kFastest, speeds.size()); ++i)
      workers.push_back(speeds[i].threads);
  }
  if (std::ranges::find(workers, given) == workers.end()) workers.push_back(given);
  std::sort(workers.begin(), workers.end());
  return workers;
}

double step_seconds_with(int64_t accumulate, double step_seconds, double micro_seconds) {
  return step_seconds + static_cast<double>(accumulate - 1) * std::min(micro_seconds, step_seconds);
}

}  // namespace dtrain::tune

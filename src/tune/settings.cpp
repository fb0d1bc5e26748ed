#include "tune/settings.h"

#include <algorithm>

#include "config/keys.h"
#include "core/check.h"
#include "text/strings.h"

namespace dtrain::tune {
namespace {

using config::AmpMode;
using config::Wire;

// The settings with each of the values in place of the member's.
template <typename T>
std::vector<TunedSettings> with_each(const TunedSettings& from, T TunedSettings::*member,
                                     const std::vector<T>& values) {
  std::vector<TunedSettings> all;
  for (const T& value : values) {
    all.push_back(from);
    all.back().*member = value;
  }
  return all;
}

std::vector<TunedSettings> vary_batch_size(const TunedSettings& from, const Space& space) {
  return with_each(
      from, &TunedSettings::batch_size,
      batch_candidates(space.share_of_global_batch, space.largest_batch, from.batch_size));
}

std::vector<TunedSettings> vary_amp(const TunedSettings& from, const Space& space) {
  return with_each(from, &TunedSettings::amp, space.amps);
}

std::vector<TunedSettings> vary_channels_last(const TunedSettings& from, const Space&) {
  return with_each(from, &TunedSettings::channels_last, {true, false});
}

// Recomputing costs time: it is for a network whose batch memory limits, and pays off by the batch
// that it makes possible.
std::vector<TunedSettings> vary_checkpointing(const TunedSettings& from, const Space& space) {
  std::vector<TunedSettings> all = with_each(from, &TunedSettings::checkpointing, {false});
  if (from.checkpointing) all.push_back(from);
  if (!from.checkpointing && space.memory_is_short) {
    all.push_back(from);
    all.back().checkpointing = true;
    all.back().batch_size = space.checkpointed_batch;
  }
  return all;
}

std::vector<TunedSettings> vary_wire(const TunedSettings& from, const Space&) {
  const Wire other = from.wire == Wire::kFp32 ? Wire::kBf16 : Wire::kFp32;
  return with_each(from, &TunedSettings::wire, {from.wire, other});
}

std::vector<TunedSettings> vary_workers(const TunedSettings& from, const Space& space) {
  return with_each(from, &TunedSettings::workers,
                   worker_candidates(space.speeds, space.needed, from.workers));
}

std::vector<TunedSettings> vary_prefetch(const TunedSettings& from, const Space& space) {
  std::vector<int64_t> ahead = {from.prefetch};
  for (const int64_t one : {2, 4, 8}) {
    if (one != from.prefetch && static_cast<double>(one) <= space.most_ahead) ahead.push_back(one);
  }
  return with_each(from, &TunedSettings::prefetch, ahead);
}

template <typename T>
void read(const config::Option& option, T& value) {
  if constexpr (NamedEnum<T>) {
    value = *value_named<T>(config::value_text(option));
  } else {
    value = *std::get<T*>(option.target);
  }
}

// Calls `use` with each row and the key's place in the configuration.
template <typename Use>
void for_each_key(config::Config& config, const Use& use) {
  const std::vector<config::Option> table = config::describe(config);
  for (const TunedKey& key : tuned_keys()) {
    const auto option = std::ranges::find(table, key.path, &config::Option::path);
    DTRAIN_CHECK(option != table.end(), key.path);
    use(key, *option);
  }
}

// The flag that sets a key; "": none does.
std::string flag_of(const config::Loaded& loaded, const char* path) {
  const auto place = loaded.places.find(path);
  return place != loaded.places.end() && place->second.starts_with("--") ? place->second : "";
}

double number(const TunedSettings& settings, const TunedKey::Member& member) {
  return std::visit([&](auto m) { return static_cast<double>(settings.*m); }, member);
}

}  // namespace

const std::vector<TunedKey>& tuned_keys() {
  using S = TunedSettings;
  static const std::vector<TunedKey> keys = {
      // path, heading, member, group, automatic value, cost, text, candidates
      {"train.batch_size", "batch", &S::batch_size, KeyGroup::kBatch, "", 1,
       [](const S& s) { return str("batch ", s.batch_size); }, vary_batch_size},
      {"train.amp", "amp", &S::amp, KeyGroup::kNetwork, "auto", 1,
       [](const S& s) { return str(s.amp); }, vary_amp},
      {"model.channels_last", "ch.last", &S::channels_last, KeyGroup::kNetwork, "", 1,
       [](const S& s) { return str(s.channels_last ? "channels_last" : ""); }, vary_channels_last},
      {"model.checkpointing", "ckpt", &S::checkpointing, KeyGroup::kNetwork, "", 1,
       [](const S& s) { return str(s.checkpointing ? "checkpointing" : ""); }, vary_checkpointing},
      {"dist.wire", "wire", &S::wire, KeyGroup::kWire, "", 1,
       [](const S& s) { return s.wire == Wire::kFp32 ? "" : str(s.wire, " between ranks"); },
       vary_wire},
      // A thread is more than a batch in memory.
      {"data.workers", "readers", &S::workers, KeyGroup::kLoader, "0", 1000,
       [](const S& s) { return str(s.workers, s.workers == 1 ? " reader" : " readers"); },
       vary_workers},
      {"data.prefetch", "ahead", &S::prefetch, KeyGroup::kLoader, "", 1,
       [](const S& s) { return str(s.prefetch, " ahead"); }, vary_prefetch},
  };
  return keys;
}

std::string TunedKey::value(const TunedSettings& settings) const {
  if (const auto* flag = std::get_if<bool TunedSettings::*>(&member))
    return settings.**flag ? "true" : "false";
  return std::visit([&](auto m) { return str(settings.*m); }, member);
}

size_t row_of(TunedKey::Member member) {
  return static_cast<size_t>(std::ranges::find(tuned_keys(), member, &TunedKey::member) -
                             tuned_keys().begin());
}

TunedSettings settings_of(const config::Config& config) {
  config::Config copy = config;
  TunedSettings settings;
  for_each_key(copy, [&](const TunedKey& key, const config::Option& option) {
    std::visit([&](auto m) { read(option, settings.*m); }, key.member);
  });
  return settings;
}

void apply(const TunedSettings& settings, config::Config& config) {
  for_each_key(config, [&](const TunedKey& key, const config::Option& option) {
    config::assign(option, key.value(settings));
  });
}

std::string text_of(const TunedSettings& settings) {
  std::vector<std::string> parts;
  for (const TunedKey& key : tuned_keys()) {
    if (std::string text = key.text(settings); !text.empty()) parts.push_back(std::move(text));
  }
  return join(parts, ", ");
}

Freedom freedom_of(const config::Loaded& loaded) {
  Freedom freedom;
  config::Config config = loaded.config;
  for_each_key(config, [&](const TunedKey& key, const config::Option& option) {
    freedom[row_of(key.member)] =
        flag_of(loaded, key.path).empty() && option.scope.holds(loaded.config);
  });
  if (config.train.amp == AmpMode::kFp64) freedom.reset(row_of(&TunedSettings::amp));
  return freedom;
}

std::vector<std::string> kept_by_flags(const config::Loaded& loaded) {
  std::vector<std::string> kept;
  for (const TunedKey& key : tuned_keys()) {
    if (const std::string flag = flag_of(loaded, key.path); !flag.empty())
      kept.push_back(str(key.path, " (", flag, ")"));
  }
  return kept;
}

std::vector<TunedSettings> candidates_of(KeyGroup group, const TunedSettings& found,
                                         const Freedom& freedom, const Space& space) {
  std::vector<TunedSettings> all = {found};
  for (const TunedKey& key : tuned_keys()) {
    if (key.group != group || !freedom[row_of(key.member)]) continue;
    std::vector<TunedSettings> more;
    for (const TunedSettings& one : all) {
      const std::vector<TunedSettings> varied = key.candidates(one, space);
      more.insert(more.end(), varied.begin(), varied.end());
    }
    all = std::move(more);
  }
  std::ranges::stable_partition(all, [&](const TunedSettings& one) { return one == found; });
  return all;
}

double cost_of(KeyGroup group, const TunedSettings& settings, const TunedSettings& given) {
  double cost = 0;
  for (const TunedKey& key : tuned_keys()) {
    if (key.group != group) continue;
    const double amount = key.changes_network() ? static_cast<double>(key.differs(settings, given))
                                                : number(settings, key.member);
    cost += key.cost * amount;
  }
  return cost;
}

bool same_network(const TunedSettings& a, const TunedSettings& b) {
  return std::ranges::none_of(tuned_keys(), [&](const TunedKey& key) {
    return key.changes_network() && key.differs(a, b);
  });
}

bool takes_less(const TunedSettings& a, const TunedSettings& b) {
  bool less = false;
  for (const TunedKey& key : tuned_keys()) {
    if (key.changes_network()) continue;
    const double one = number(a, key.member), other = number(b, key.member);
    if (one > other) return false;
    less = less || one < other;
  }
  return less;
}

}  // namespace dtrain::tune

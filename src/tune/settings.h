#pragma once

// What `dtrain tune` may change of a run: one table of keys, from which all else follows. A new
// setting is a member of TunedSettings and a row of tuned_keys(). Pure.

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "config/load.h"
#include "tune/candidates.h"

namespace dtrain::tune {

struct TunedSettings {
  int64_t batch_size = 1;                        // samples per rank and micro-step
  config::AmpMode amp = config::AmpMode::kFp32;  // never auto
  bool channels_last = true, checkpointing = false;
  config::Wire wire = config::Wire::kFp32;
  int64_t workers = 1, prefetch = 4;

  bool operator==(const TunedSettings&) const = default;
};

// The keys that one search varies together.
enum class KeyGroup { kBatch, kNetwork, kWire, kLoader };

struct TunedKey {
  using Member = std::variant<int64_t TunedSettings::*, bool TunedSettings::*,
                              config::AmpMode TunedSettings::*, config::Wire TunedSettings::*>;
  const char* path;     // "train.batch_size"
  const char* heading;  // its column in the table of trials
  Member member;
  KeyGroup group;
  const char* automatic;  // the value by which the run chooses; "": there is none
  // The cost of one more of it; of two settings that are as fast, the cheaper one is kept. Where
  // the key changes the network: the cost of any value but the given one.
  double cost;
  std::string (*text)(const TunedSettings&);  // "2 readers"; "": not worth a word
  // The settings with each value that is worth a trial, the most promising first.
  std::vector<TunedSettings> (*candidates)(const TunedSettings&, const Space&);

  // Whether another network has to be made for another value.
  bool changes_network() const { return group == KeyGroup::kNetwork || group == KeyGroup::kWire; }
  std::string value(const TunedSettings&) const;  // text for a config
  bool differs(const TunedSettings& a, const TunedSettings& b) const {
    return value(a) != value(b);
  }
};
const std::vector<TunedKey>& tuned_keys();

// Values are copied; an automatic one stays automatic.
TunedSettings settings_of(const config::Config&);
void apply(const TunedSettings&, config::Config&);
std::string text_of(const TunedSettings&);  // "batch 64, bf16, channels_last, 2 readers, 4 ahead"

// What may be changed, by rows of the table: not what a flag of this command line sets, nor what
// does nothing for the network. Travels from rank 0 to the others.
using Freedom = std::bitset<32>;
size_t row_of(TunedKey::Member);
Freedom freedom_of(const config::Loaded&);
// The keys of the table that a flag sets, for people: "train.amp (--amp)".
std::vector<std::string> kept_by_flags(const config::Loaded&);

// All combinations of the candidates of the free keys of a search, with the found settings first,
// then by keys in the order of the table.
std::vector<TunedSettings> candidates_of(KeyGroup, const TunedSettings& found, const Freedom&,
                                         const Space&);
double cost_of(KeyGroup, const TunedSettings&, const TunedSettings& given);

// Whether one network can be used for both.
bool same_network(const TunedSettings&, const TunedSettings&);
// Whether the first takes less of what has a cost: less of one thing, and more of none.
bool takes_less(const TunedSettings&, const TunedSettings&);

}  // namespace dtrain::tune

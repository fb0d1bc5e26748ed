#pragma once

// Compares two configs key by key, and changes a config by the dotted names of its keys.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"

namespace dtrain::config {

// The keys that differ although they cannot change when a run is resumed (network, global batch,
// seed, ...). A global batch of 0 in `now` means the saved one; `saved` is a resolved config.
std::vector<std::string> fixed_differences(const Config& saved, const Config& now);
std::vector<std::string> differences(const Config& saved,
                                     const Config& now);  // "train.epochs: 2 -> 4", all others

// One key; ConfigError if it cannot have this value
void set(Config&, std::string_view path, std::string_view text);

// The keys that all ranks of a run must have in common, as lines "train.epochs=30": all but those
// of a rank's own machine (where its data file lies, its threads, its addresses) and those of the
// run folder, which only rank 0 uses.
std::string keys_in_common(const Config&);

// The values in the text of a config by dotted name, in its order and as they are written there:
// known keys or not, so that runs of different versions can be compared. Empty for a text that is
// no YAML of sections.
std::vector<std::pair<std::string, std::string>> values_in(std::string_view text);

// Copies the values of these keys, e.g. of those given when a run is resumed.
void copy_keys(const Config& from, Config& to, const std::vector<std::string>& paths);

}  // namespace dtrain::config

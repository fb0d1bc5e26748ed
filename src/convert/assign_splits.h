#pragma once

// Assigns the samples of a raw set to splits: by file lists, by the set's protocol or folders, or
// by a seeded choice of groups (separately for each class, if there are classes). Pure functions,
// except that they read the lists.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/raw_set.h"

namespace dtrain::convert {

struct SplitOptions {
  double test_share = 0.1;  // share of groups, per class if there are classes; 0: no test split
  std::optional<double> val_share = std::nullopt;  // likewise; nullopt: RawSet::usual_val_share()
  uint64_t seed = 1;                               // seed of the choice of groups
  // Whether the user gave a share: then a UsageError if splits are not chosen by share
  bool shares_given = false;
  // Text files with one sample name per line, with or without extension ("AFW/AFW_134212_1_2"):
  // name_list.h. Other samples are left out.
  std::filesystem::path train_list, val_list, test_list;
  bool by_list() const { return !train_list.empty() || !val_list.empty() || !test_list.empty(); }
};

// The split of each sample; kNone if it is in no list. Where splits are chosen, each class keeps a
// group for training, although a small split may be left without samples then. Throws DataError for
// a list that cannot be read, a name that no sample or two samples have, and a sample in two lists.
std::vector<Split> assign_splits(const RawSet&, const SplitOptions&);

// Chooses `share` of `groups`, which are distinct and called `name(group)`: rounded; at least one
// and not all if there are two or more. The result does not depend on the order of `groups`; it
// is sorted.
std::vector<uint32_t> choose_groups(const std::vector<uint32_t>& groups,
                                    const std::function<std::string(uint32_t)>& name, double share,
                                    uint64_t seed);

// Groups with samples in more than one split, which only lists can cause. The summary warns
// about them.
struct Straddling {
  int64_t groups = 0;
  std::string first{};  // the first of their names in sorted order
};
Straddling straddling_groups(const SampleList&, const std::vector<Split>& splits);

}  // namespace dtrain::convert

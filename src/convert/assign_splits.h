#pragma once

// Which samples of a raw set go to which split: by file lists, by the protocol or the folders of the set, or by a keyed
// choice of groups, class by class where there are classes. Pure but for reading the lists.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convert/raw_set.h"

namespace dtrain::convert {

struct SplitOptions {
  double test_share = 0.1;  // of the groups (of each class, where there are classes); 0: no test split
  std::optional<double> val_share = std::nullopt;  // likewise; none: as is usual for the set
  uint64_t seed = 1;                               // of the choice of groups
  bool shares_given = false;                       // by the user: UsageError where the splits are not drawn
  // Files with one sample per line, named without its extension ("AFW/AFW_134212_1_2"). Samples in none are left out.
  std::filesystem::path train_list, val_list, test_list;
  bool by_list() const { return !train_list.empty() || !val_list.empty() || !test_list.empty(); }
};

// Per sample "train", "val", "test", or "" (in no list). Throws DataError: a list that cannot be read, a name that is
// not in the set or that two samples have, a sample in two lists.
std::vector<std::string> assign_splits(const RawSet&, const SplitOptions&);

// `share` of the distinct groups, rounded, at least one and not all when there are two or more; the same for any order.
std::vector<std::string> choose_groups(const std::vector<std::string>& groups, double share, uint64_t seed);

// Groups that have samples in more than one split (only lists can do that): a warning for the summary.
std::vector<std::string> straddling_groups(const std::vector<RawSample>&, const std::vector<std::string>& splits);

}  // namespace dtrain::convert

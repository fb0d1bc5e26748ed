#include "convert/assign_splits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "convert/name_index.h"
#include "convert/name_list.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"
#include "text/strings.h"
#include "text/unicode.h"

namespace dtrain::convert {
namespace {

// The sample of a name as it is, because a name may contain a dot, or else without its extension.
size_t find_bytes(const NameIndex& known, const std::string& name) {
  std::optional<NameIndex::Found> found = known.find(name);
  const bool has_extension =
      std::filesystem::path(name).extension().string().find_first_of(" \t,;") == std::string::npos;
  if (!found && has_extension) found = known.find(without_extension(name));
  return !found ? kNoSample : found->ambiguous ? kTwoSamples : found->sample;
}

size_t find_sample(const NameIndex& known, const std::string& name) {
  const size_t found = find_bytes(known, name);
  return found == kNoSample ? find_bytes(known, nfc(name)) : found;
}

std::vector<Split> by_lists(const SampleList& samples, const SplitOptions& options) {
  const NameIndex known(samples);
  std::vector<Split> splits(samples.size());
  ListedLabels labels;
  const auto read = [&](const std::filesystem::path& list, Split split) {
    if (list.empty()) return;
    read_name_list(
        list, std::bind_front(find_sample, std::cref(known)), [&](const ListedSample& listed) {
          labels.check(listed, samples.label(listed.sample));
          Split& assigned = splits[listed.sample];
          if (assigned != Split::kNone && assigned != split) {
            throw DataError(
                str(listed.place, ": ", listed.name, " is also in the ", assigned, " list"));
          }
          assigned = split;
        });
  };
  read(options.train_list, Split::kTrain);
  read(options.val_list, Split::kVal);
  read(options.test_list, Split::kTest);
  return splits;
}

// The groups of each class, or all of them if there are no classes.
class GroupsByClass {
 public:
  explicit GroupsByClass(const SampleList& samples) : samples_(samples) {
    if (!samples.has_labels()) return;
    for (size_t i = 0; i < samples.size(); ++i) {
      const size_t label = class_of(i);
      if (begins_.size() < label + 2) begins_.resize(label + 2);
      ++begins_[label + 1];
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    groups_.resize(samples.size());
    std::vector<size_t> next = begins_;
    for (size_t i = 0; i < samples.size(); ++i) groups_[next[class_of(i)]++] = samples.group(i);
  }

  size_t classes() const { return samples_.has_labels() ? begins_.size() - 1 : 1; }

  std::vector<uint32_t> distinct(size_t index) const {
    if (!samples_.has_labels()) {
      std::vector<uint32_t> all(samples_.groups());
      std::iota(all.begin(), all.end(), 0);
      return all;
    }
    const auto at = [&](size_t place) {
      return groups_.begin() + static_cast<std::ptrdiff_t>(place);
    };
    std::vector<uint32_t> groups(at(begins_[index]), at(begins_[index + 1]));
    if (samples_.own_groups()) return groups;
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    return groups;
  }

 private:
  // 0: without a class
  size_t class_of(size_t sample) const { return static_cast<size_t>(samples_.label(sample) + 1); }

  const SampleList& samples_;
  std::vector<size_t> begins_;  // where each class begins in groups_, then the end
  std::vector<uint32_t> groups_;
};

uint64_t key_of(const std::string& group, uint64_t seed) {
  return keyed(static_cast<uint64_t>(Purpose::kSplit), seed, xxh64(group));
}

using GroupName = std::function<std::string(uint32_t)>;

// Chooses test groups first and validation groups from the rest, so that the test split does not
// depend on val_share.
void choose_splits(std::vector<uint32_t> groups, const GroupName& name, double test_share,
                   double val_share, uint64_t seed, std::vector<Split>& split_of_group) {
  for (const uint32_t group : choose_groups(groups, name, test_share, seed))
    split_of_group[group] = Split::kTest;
  std::erase_if(groups, [&](uint32_t group) { return split_of_group[group] != Split::kNone; });
  const double of_rest = std::min(1.0, val_share / (1 - test_share));
  for (const uint32_t group : choose_groups(groups, name, of_rest, seed))
    split_of_group[group] = Split::kVal;
}

// If no group of a class is left for training, the last one chosen for validation is, or else for
// the test.
void keep_one_for_training(const std::vector<uint32_t>& groups, const GroupName& name,
                           uint64_t seed, std::vector<Split>& split_of_group) {
  std::optional<std::tuple<bool, uint64_t, uint32_t>>
      last;  // whether it is for validation, key, group
  for (const uint32_t group : groups) {
    if (split_of_group[group] == Split::kNone) return;
    const bool validates = split_of_group[group] == Split::kVal;
    last = std::max(last, std::optional(std::tuple(validates, key_of(name(group), seed), group)));
  }
  if (last) split_of_group[std::get<2>(*last)] = Split::kNone;
}

std::vector<Split> splits_of_groups(const SampleList& samples, const SplitOptions& options,
                                    double val_share) {
  const GroupName name = [&](uint32_t group) { return samples.group_name(group); };
  const GroupsByClass by_class(samples);
  std::vector<Split> splits(samples.groups());
  for (size_t i = 0; i < by_class.classes(); ++i) {
    choose_splits(by_class.distinct(i), name, options.test_share, val_share, options.seed, splits);
  }
  for (size_t i = 1; i < by_class.classes(); ++i) {
    keep_one_for_training(by_class.distinct(i), name, options.seed, splits);
  }
  return splits;
}

std::vector<Split> splits_of_protocol(const SampleList& samples,
                                      const std::vector<std::string>& test) {
  const std::set<std::string> names(test.begin(), test.end());
  std::vector<Split> splits(samples.groups());
  for (uint32_t group = 0; group < splits.size(); ++group) {
    if (names.contains(samples.group_name(group))) splits[group] = Split::kTest;
  }
  return splits;
}

}  // namespace

std::vector<uint32_t> choose_groups(const std::vector<uint32_t>& groups, const GroupName& name,
                                    double share, uint64_t seed) {
  const auto all = static_cast<int64_t>(groups.size());
  int64_t count = std::llround(share * static_cast<double>(all));
  if (share > 0 && all >= 2) count = std::clamp<int64_t>(count, 1, all - 1);
  count = std::min(count, all);
  if (count == 0) return {};
  // The groups with the smallest keys. Keys are not kept with their groups, which would take twice
  // the memory.
  std::vector<uint64_t> keys;
  keys.reserve(groups.size());
  for (const uint32_t group : groups) keys.push_back(key_of(name(group), seed));
  const auto last = keys.begin() + (count - 1);
  std::nth_element(keys.begin(), last, keys.end());
  std::vector<uint32_t> chosen;
  std::vector<std::pair<std::string, uint32_t>>
      equal;  // to the largest key that is chosen: mostly one group
  for (const uint32_t group : groups) {
    const std::string text = name(group);
    const uint64_t key = key_of(text, seed);
    if (key < *last) chosen.push_back(group);
    if (key == *last) equal.emplace_back(text, group);
  }
  std::sort(equal.begin(), equal.end());
  equal.resize(static_cast<size_t>(count) - chosen.size());
  for (const auto& [text, group] : equal) chosen.push_back(group);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<Split> assign_splits(const RawSet& set, const SplitOptions& options) {
  const SampleList& samples = set.samples();
  const bool own = samples.has_splits();
  if (options.shares_given &&
      (options.by_list() || own || set.all_test() || !set.test_groups().empty())) {
    throw UsageError(
        str("--test-share and --val-share apply only to randomly chosen splits, but here ",
            options.by_list() ? "lists are given"
            : own             ? "the data set has its own splits"
                              : "the protocol defines the splits",
            ": leave them out"));
  }
  if (options.by_list()) return by_lists(samples, options);
  std::vector<Split> splits(samples.size());
  if (own) {
    for (size_t i = 0; i < splits.size(); ++i) splits[i] = samples.split(i);
    return splits;
  }
  if (set.all_test() || (set.test_groups().empty() && options.test_share == 1)) {
    return std::vector<Split>(samples.size(), Split::kTest);
  }
  const std::vector<std::string> by_protocol = set.test_groups();
  const double val_share = options.val_share.value_or(set.usual_val_share());
  const std::vector<Split> of_group = by_protocol.empty()
                                          ? splits_of_groups(samples, options, val_share)
                                          : splits_of_protocol(samples, by_protocol);
  for (size_t i = 0; i < splits.size(); ++i) {
    const Split chosen = of_group[samples.group(i)];
    splits[i] = chosen == Split::kNone ? Split::kTrain : chosen;
  }
  return splits;
}

Straddling straddling_groups(const SampleList& samples, const std::vector<Split>& splits) {
  Straddling result;
  if (samples.own_groups()) return result;
  constexpr Split kSeveral{0xff};
  std::vector<Split> of_group(samples.groups());
  for (size_t i = 0; i < splits.size(); ++i) {
    Split& seen = of_group[samples.group(i)];
    if (splits[i] == Split::kNone || seen == splits[i] || seen == kSeveral) continue;
    seen = seen == Split::kNone ? splits[i] : kSeveral;
  }
  for (uint32_t group = 0; group < of_group.size(); ++group) {
    if (of_group[group] != kSeveral) continue;
    const std::string name = samples.group_name(group);
    if (result.groups++ == 0 || name < result.first) result.first = name;
  }
  return result;
}

}  // namespace dtrain::convert

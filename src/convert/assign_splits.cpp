#include "convert/assign_splits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "convert/name_list.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"
#include "core/strings.h"
#include "core/unicode.h"

namespace dtrain::convert {
namespace {

std::string without_extension(const std::string& name) {
  return std::filesystem::path(name).replace_extension().generic_string();
}

// Index of each sample, by its name with and without extension, and by these in NFC: a list and the
// names of files may come from different systems.
using Positions = std::map<std::string, size_t>;

Positions positions(const std::vector<RawSample>& samples) {
  Positions result;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto [found, fresh] = result.emplace(without_extension(samples[i].name), i);
    if (!fresh) found->second = kTwoSamples;  // they differ only in their extension
  }
  for (size_t i = 0; i < samples.size(); ++i) result[samples[i].name] = i;
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::string composed = nfc(samples[i].name);
    if (composed == samples[i].name) continue;  // most names, which are ASCII
    for (const std::string& name : {composed, without_extension(composed)}) {
      const auto [found, fresh] = result.emplace(name, i);
      if (fresh || found->second == i || found->second >= samples.size()) continue;
      const std::string& other = samples[found->second].name;
      if (other != name && without_extension(other) != name) found->second = kTwoSamples;
    }
  }
  return result;
}

// The sample of a name as it is, because a name may contain a dot, or else without its extension.
size_t find_bytes(const Positions& position, const std::string& name) {
  auto found = position.find(name);
  const bool has_extension =
      std::filesystem::path(name).extension().string().find_first_of(" \t,;") == std::string::npos;
  if (found == position.end() && has_extension) found = position.find(without_extension(name));
  return found == position.end() ? kNoSample : found->second;
}

size_t find_sample(const Positions& position, const std::string& name) {
  const size_t found = find_bytes(position, name);
  return found == kNoSample ? find_bytes(position, nfc(name)) : found;
}

std::vector<std::string> by_lists(const std::vector<RawSample>& samples, const SplitOptions& options) {
  const Positions position = positions(samples);
  std::vector<std::string> splits(samples.size());
  ListedLabels labels;
  const auto read = [&](const std::filesystem::path& list, const std::string& split) {
    if (list.empty()) return;
    read_name_list(list, std::bind_front(find_sample, std::cref(position)), [&](const ListedSample& listed) {
      labels.check(listed, samples[listed.sample].label);
      std::string& assigned = splits[listed.sample];
      if (!assigned.empty() && assigned != split) {
        throw DataError(str(listed.place, ": ", listed.name, " is also in the ", assigned, " list"));
      }
      assigned = split;
    });
  };
  read(options.train_list, "train");
  read(options.val_list, "val");
  read(options.test_list, "test");
  return splits;
}

// Chooses test groups first and validation groups from the rest, so that the test split does not depend on val_share.
void choose_splits(const std::vector<std::string>& groups, double test_share, double val_share, uint64_t seed,
                   std::map<std::string, std::string>& split_of_group) {
  for (const std::string& group : choose_groups(groups, test_share, seed)) split_of_group[group] = "test";
  std::vector<std::string> rest;
  for (const std::string& group : groups) {
    if (!split_of_group.contains(group)) rest.push_back(group);
  }
  const double of_rest = std::min(1.0, val_share / (1 - test_share));
  for (const std::string& group : choose_groups(rest, of_rest, seed)) split_of_group[group] = "val";
}

}  // namespace

std::vector<std::string> choose_groups(const std::vector<std::string>& groups, double share, uint64_t seed) {
  const std::set<std::string> distinct(groups.begin(), groups.end());
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const std::string& group : distinct) {
    const uint64_t name = xxh64(std::as_bytes(std::span(group)));
    order.emplace_back(keyed(static_cast<uint64_t>(Purpose::kSplit), seed, name), group);
  }
  std::sort(order.begin(), order.end());
  const auto all = static_cast<int64_t>(order.size());
  int64_t count = std::llround(share * static_cast<double>(all));
  if (share > 0 && all >= 2) count = std::clamp<int64_t>(count, 1, all - 1);
  std::vector<std::string> chosen;
  for (int64_t i = 0; i < std::min(count, all); ++i) chosen.push_back(order[static_cast<size_t>(i)].second);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<std::string> assign_splits(const RawSet& set, const SplitOptions& options) {
  const std::vector<RawSample>& samples = set.samples();
  const bool own = std::any_of(samples.begin(), samples.end(), [](const RawSample& s) { return !s.split.empty(); });
  if (options.shares_given && (options.by_list() || own || set.all_test() || !set.test_groups().empty())) {
    throw UsageError(str("--test-share and --val-share apply only to randomly chosen splits, but here ",
                         options.by_list() ? "lists are given"
                         : own             ? "the data set has its own splits"
                                           : "the protocol defines the splits",
                         ": leave them out"));
  }
  if (options.by_list()) return by_lists(samples, options);
  if (own) {
    std::vector<std::string> splits;
    for (const RawSample& sample : samples) splits.push_back(sample.split);
    return splits;
  }
  if (set.all_test() || (set.test_groups().empty() && options.test_share == 1))
    return std::vector<std::string>(samples.size(), "test");
  const std::vector<std::string> by_protocol = set.test_groups();
  std::map<std::string, std::string> split_of_group;
  for (const std::string& group : by_protocol) split_of_group[group] = "test";
  if (by_protocol.empty()) {
    const double val_share = options.val_share.value_or(set.usual_val_share());
    std::map<int64_t, std::vector<std::string>> groups_by_label;
    for (const RawSample& sample : samples) groups_by_label[sample.label].push_back(sample.group);
    for (const auto& [label, groups] : groups_by_label) {
      choose_splits(groups, options.test_share, val_share, options.seed, split_of_group);
    }
  }
  std::vector<std::string> splits;
  for (const RawSample& sample : samples) {
    const auto found = split_of_group.find(sample.group);
    splits.push_back(found == split_of_group.end() ? "train" : found->second);
  }
  return splits;
}

std::vector<std::string> straddling_groups(const std::vector<RawSample>& samples,
                                           const std::vector<std::string>& splits) {
  std::map<std::string, std::set<std::string>> seen;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!splits[i].empty()) seen[samples[i].group].insert(splits[i]);
  }
  std::vector<std::string> result;
  for (const auto& [group, in] : seen) {
    if (in.size() > 1) result.push_back(group);
  }
  return result;
}

}  // namespace dtrain::convert

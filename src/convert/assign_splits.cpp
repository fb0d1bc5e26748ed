#include "convert/assign_splits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"
#include "core/strings.h"
#include "formats/read_file.h"

namespace dtrain::convert {
namespace {

std::string without_extension(const std::string& name) {
  return std::filesystem::path(name).replace_extension().generic_string();
}

std::string trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// Index of each sample, by its name with and without extension.
constexpr size_t kAmbiguous = std::numeric_limits<size_t>::max();  // two samples differ only in their extension
using Positions = std::map<std::string, size_t>;

Positions positions(const std::vector<RawSample>& samples) {
  Positions result;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto [found, fresh] = result.emplace(without_extension(samples[i].name), i);
    if (!fresh) found->second = kAmbiguous;
  }
  for (size_t i = 0; i < samples.size(); ++i) result[samples[i].name] = i;
  return result;
}

std::vector<std::string> lines_of(const std::filesystem::path& list) {
  try {
    const std::vector<std::byte> bytes = formats::read_file(list);
    return split({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, '\n');
  } catch (const DataError& e) {
    throw DataError(str("cannot read the list ", list.string(), ": ", e.what()));
  }
}

// Looks up each name as it is, because a name may contain a dot, and then without its extension.
void read_list(const std::filesystem::path& file, const std::string& split, const Positions& position,
               std::vector<std::string>& result) {
  int64_t number = 0;
  for (const std::string& line : lines_of(file)) {
    ++number;
    const std::string name = trimmed(line);
    if (name.empty()) continue;
    auto found = position.find(name);
    if (found == position.end()) found = position.find(without_extension(name));
    if (found == position.end()) throw DataError(str(file.string(), ":", number, ": no sample is called ", name));
    if (found->second == kAmbiguous) {
      throw DataError(str(file.string(), ":", number, ": two samples are called ", name, "; add the extension"));
    }
    std::string& assigned = result[found->second];
    if (!assigned.empty() && assigned != split) {
      throw DataError(str(file.string(), ":", number, ": ", name, " is also in the ", assigned, " list"));
    }
    assigned = split;
  }
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
  if (options.by_list()) {
    const Positions position = positions(samples);
    std::vector<std::string> splits(samples.size());
    if (!options.train_list.empty()) read_list(options.train_list, "train", position, splits);
    if (!options.val_list.empty()) read_list(options.val_list, "val", position, splits);
    if (!options.test_list.empty()) read_list(options.test_list, "test", position, splits);
    return splits;
  }
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

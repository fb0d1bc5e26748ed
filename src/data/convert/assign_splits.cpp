#include "data/convert/assign_splits.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"
#include "core/strings.h"

namespace dtrain::data {
namespace {

std::string without_extension(const std::string& name) {
  return std::filesystem::path(name).replace_extension().generic_string();
}

std::string trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t\r");
  return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

// Whole names, since a name may hold a dot: it is looked up as it stands, then without an extension.
void read_list(const std::filesystem::path& file, const std::string& split,
               const std::map<std::string, size_t>& position, std::vector<std::string>& result) {
  std::ifstream in(file);
  if (!in) throw DataError(str("cannot read the list ", file.string()));
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string name = trimmed(line);
    if (name.empty()) continue;
    auto found = position.find(name);
    if (found == position.end()) found = position.find(without_extension(name));
    if (found == position.end()) throw DataError(str(file.string(), ":", number, ": no sample is called ", name));
    std::string& assigned = result[found->second];
    if (!assigned.empty() && assigned != split) {
      throw DataError(str(file.string(), ":", number, ": ", name, " is in the ", assigned, " list, too"));
    }
    assigned = split;
  }
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
  if (options.by_list()) {
    std::map<std::string, size_t> position;
    for (size_t i = 0; i < samples.size(); ++i) position[without_extension(samples[i].name)] = i;
    std::vector<std::string> splits(samples.size());
    if (!options.train_list.empty()) read_list(options.train_list, "train", position, splits);
    if (!options.val_list.empty()) read_list(options.val_list, "val", position, splits);
    if (!options.test_list.empty()) read_list(options.test_list, "test", position, splits);
    return splits;
  }
  if (set.all_test()) return std::vector<std::string>(samples.size(), "test");
  std::vector<std::string> test = set.test_groups();
  if (test.empty()) {
    std::vector<std::string> groups;
    for (const RawSample& sample : samples) groups.push_back(sample.group);
    test = choose_groups(groups, options.test_share, options.seed);
  }
  const std::set<std::string> chosen(test.begin(), test.end());
  std::vector<std::string> splits;
  for (const RawSample& sample : samples) splits.push_back(chosen.contains(sample.group) ? "test" : "train");
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

}  // namespace dtrain::data

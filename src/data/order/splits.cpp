#include "data/order/splits.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "core/check.h"
#include "core/hash.h"
#include "core/random.h"

namespace dtrain::data {
namespace {

std::vector<int64_t> all_but(int64_t samples, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<bool> taken(static_cast<size_t>(samples));
  for (const int64_t id : a) taken[static_cast<size_t>(id)] = true;
  for (const int64_t id : b) taken[static_cast<size_t>(id)] = true;
  std::vector<int64_t> rest;
  for (int64_t id = 0; id < samples; ++id) {
    if (!taken[static_cast<size_t>(id)]) rest.push_back(id);
  }
  return rest;
}

// Distinct groups in a random order that (purpose, seed) selects.
class ShuffledGroups {
 public:
  ShuffledGroups(const Store& store, const std::vector<int64_t>& ids, Purpose purpose, uint64_t seed) : store_(store) {
    std::set<int64_t> distinct;
    for (const int64_t id : ids) distinct.insert(store.group(id));
    groups_.assign(distinct.begin(), distinct.end());
    const auto key = [&](int64_t group) {
      return keyed(static_cast<uint64_t>(purpose), seed, static_cast<uint64_t>(group));
    };
    std::sort(groups_.begin(), groups_.end(), [&](int64_t a, int64_t b) { return key(a) < key(b); });
  }

  int64_t count() const { return static_cast<int64_t>(groups_.size()); }
  int64_t count(double share) const { return std::llround(share * static_cast<double>(count())); }

  // Moves the samples of the first `chosen` groups out of `ids`, in their order.
  std::vector<int64_t> take(int64_t chosen, std::vector<int64_t>& ids) const {
    const std::set<int64_t> first(groups_.begin(), groups_.begin() + chosen);
    const auto border =
        std::stable_partition(ids.begin(), ids.end(), [&](int64_t id) { return first.count(store_.group(id)) == 0; });
    std::vector<int64_t> taken(border, ids.end());
    ids.erase(border, ids.end());
    return taken;
  }

 private:
  const Store& store_;
  std::vector<int64_t> groups_;
};

}  // namespace

Splits splits(const Store& store, double val_share, uint64_t seed, double train_share) {
  DTRAIN_CHECK(val_share >= 0 && val_share < 1, "validation share ", val_share);
  DTRAIN_CHECK(train_share > 0 && train_share <= 1, "training share ", train_share);
  Splits result{store.split("train"), store.split("val"), store.split("test")};
  if (result.train.empty()) result.train = all_but(store.schema().samples, result.val, result.test);
  if (result.val.empty() && val_share > 0) {
    const ShuffledGroups groups(store, result.train, Purpose::kSplit, seed);
    if (groups.count() >= 2) {
      result.val = groups.take(std::clamp<int64_t>(groups.count(val_share), 1, groups.count() - 1), result.train);
    }
  }
  if (train_share < 1 && !result.train.empty()) {
    const ShuffledGroups groups(store, result.train, Purpose::kSubset, seed);
    result.train = groups.take(std::max<int64_t>(groups.count(train_share), 1), result.train);
  }
  return result;
}

uint64_t checksum(const Splits& splits) {
  uint64_t sum = 0;
  for (const auto* ids : {&splits.train, &splits.val, &splits.test}) sum = xxh64(std::as_bytes(std::span(*ids)), sum);
  return sum;
}

}  // namespace dtrain::data

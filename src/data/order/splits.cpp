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

}  // namespace

Splits splits(const Store& store, double val_share, uint64_t seed) {
  DTRAIN_CHECK(val_share >= 0 && val_share < 1, "validation share ", val_share);
  Splits result{store.split("train"), store.split("val"), store.split("test")};
  if (result.train.empty()) result.train = all_but(store.schema().samples, result.val, result.test);
  if (!result.val.empty() || val_share == 0) return result;

  std::set<int64_t> distinct;
  for (const int64_t id : result.train) distinct.insert(store.group(id));
  std::vector<int64_t> groups(distinct.begin(), distinct.end());
  const auto count = static_cast<int64_t>(groups.size());
  if (count < 2) return result;
  const auto key = [&](int64_t group) {
    return keyed(static_cast<uint64_t>(Purpose::kSplit), seed, static_cast<uint64_t>(group));
  };
  std::sort(groups.begin(), groups.end(), [&](int64_t a, int64_t b) { return key(a) < key(b); });
  const int64_t chosen = std::clamp<int64_t>(std::llround(val_share * static_cast<double>(count)), 1, count - 1);
  const std::set<int64_t> held_out(groups.begin(), groups.begin() + chosen);
  const auto in_train = [&](int64_t id) { return held_out.count(store.group(id)) == 0; };
  const auto border = std::stable_partition(result.train.begin(), result.train.end(), in_train);
  result.val.assign(border, result.train.end());
  result.train.erase(border, result.train.end());
  return result;
}

uint64_t checksum(const Splits& splits) {
  uint64_t sum = 0;
  for (const auto* ids : {&splits.train, &splits.val, &splits.test}) sum = xxh64(std::as_bytes(std::span(*ids)), sum);
  return sum;
}

}  // namespace dtrain::data

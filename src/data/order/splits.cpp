#include "data/order/splits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/hash.h"
#include "core/random.h"

namespace dtrain::data {
namespace {

std::vector<int64_t> all_but(int64_t samples, const std::vector<int64_t>& a,
                             const std::vector<int64_t>& b) {
  std::vector<bool> taken(static_cast<size_t>(samples));
  for (const int64_t id : a) taken[static_cast<size_t>(id)] = true;
  for (const int64_t id : b) taken[static_cast<size_t>(id)] = true;
  std::vector<int64_t> rest;
  for (int64_t id = 0; id < samples; ++id) {
    if (!taken[static_cast<size_t>(id)]) rest.push_back(id);
  }
  return rest;
}

// The class of each id; empty if the targets are not classes. -1: not one of those that have names,
// if classes have.
std::vector<int32_t> classes_of(const Store& store, const std::vector<int64_t>& ids) {
  const auto known = static_cast<int64_t>(class_names(store.origin()).size());
  if (store.schema().target != Field{Element::kInt64, {}}) return {};
  const int64_t end = known > 0 ? known : std::numeric_limits<int32_t>::max();
  std::vector<int32_t> classes;
  classes.reserve(ids.size());
  for (const int64_t id : ids) {
    int64_t label = 0;
    store.read_target(id, std::as_writable_bytes(std::span(&label, 1)));
    classes.push_back(label >= 0 && label < end ? static_cast<int32_t>(label) : -1);
  }
  return classes;
}

// The groups of `ids` in a random order that (purpose, seed) selects. A group's place is 0 if it is
// the first.
class GroupOrder {
 public:
  GroupOrder(const Store& store, const std::vector<int64_t>& ids, Purpose purpose, uint64_t seed) {
    places_.reserve(ids.size());
    for (const int64_t id : ids) places_.push_back(store.origin().group(id));
    std::vector<int64_t> distinct = places_;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    // First keys; those of different groups differ, see keyed()
    std::vector<uint64_t> place(distinct.size());
    for (size_t i = 0; i < place.size(); ++i) {
      place[i] = keyed(static_cast<uint64_t>(purpose), seed, static_cast<uint64_t>(distinct[i]));
    }
    std::vector<size_t> order(distinct.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return place[i] < place[j]; });
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    for (int64_t& group : places_) {
      const auto found = std::lower_bound(distinct.begin(), distinct.end(), group);
      group = static_cast<int64_t>(place[static_cast<size_t>(found - distinct.begin())]);
    }
    count_ = static_cast<int64_t>(distinct.size());
  }

  int64_t count() const { return count_; }
  int64_t count(double share) const { return std::llround(share * static_cast<double>(count_)); }
  std::vector<bool> first(int64_t groups) const {  // one flag per place
    std::vector<bool> chosen(static_cast<size_t>(count_));
    std::fill_n(chosen.begin(), groups, true);
    return chosen;
  }

  // The place of the group, among those of each class, that `better` prefers. Classes without a
  // sample have none.
  std::map<int64_t, int64_t> by_class(const std::vector<int32_t>& classes,
                                      const std::function<bool(int64_t, int64_t)>& better) const {
    std::map<int64_t, int64_t> best;
    for (size_t i = 0; i < classes.size(); ++i) {
      if (classes[i] < 0) continue;
      const auto [found, fresh] = best.emplace(classes[i], places_[i]);
      if (!fresh && better(places_[i], found->second)) found->second = places_[i];
    }
    return best;
  }

  // Moves the samples of the chosen groups out of `ids`, in their order. Requires: the ids of
  // the constructor.
  std::vector<int64_t> take(const std::vector<bool>& chosen, std::vector<int64_t>& ids) const {
    std::vector<int64_t> taken, rest;
    for (size_t i = 0; i < ids.size(); ++i) {
      (chosen[static_cast<size_t>(places_[i])] ? taken : rest).push_back(ids[i]);
    }
    ids = std::move(rest);
    return taken;
  }

 private:
  std::vector<int64_t> places_;  // for each id, the place of its group
  int64_t count_ = 0;
};

// Moves `val_share` of the groups of `splits.train` to `splits.val`. The last group of a class that
// is among them stays, and if these were all of them, the first group that no class needs is
// moved instead.
void hold_out(const Store& store, double val_share, uint64_t seed, Splits& splits) {
  const GroupOrder groups(store, splits.train, Purpose::kSplit, seed);
  if (groups.count() < 2) return;
  const int64_t wanted = std::clamp<int64_t>(groups.count(val_share), 1, groups.count() - 1);
  std::vector<bool> held = groups.first(wanted), needed = groups.first(0);
  const std::map<int64_t, int64_t> last =
      groups.by_class(classes_of(store, splits.train), std::greater<>());
  for (const auto& [label, place] : last) {
    held[static_cast<size_t>(place)] = false;
    needed[static_cast<size_t>(place)] = true;
  }
  if (std::ranges::find(held, true) == held.end()) {
    const auto moved = std::ranges::find(needed, false);
    held[moved == needed.end() ? 0 : static_cast<size_t>(moved - needed.begin())] = true;
  }
  for (const auto& [label, place] : last) {
    if (held[static_cast<size_t>(place)]) splits.untrained_classes.push_back(label);
  }
  splits.val = groups.take(held, splits.train);
}

// Keeps `share` of the groups of `ids`, and for each class without a sample among them the first of
// its groups.
void keep_share(const Store& store, double share, uint64_t seed, std::vector<int64_t>& ids) {
  const GroupOrder groups(store, ids, Purpose::kSubset, seed);
  std::vector<bool> kept = groups.first(std::max<int64_t>(groups.count(share), 1));
  for (const auto& [label, place] : groups.by_class(classes_of(store, ids), std::less<>())) {
    kept[static_cast<size_t>(place)] = true;
  }
  ids = groups.take(kept, ids);
}

}  // namespace

Splits splits(const Store& store, double val_share, uint64_t seed, double train_share) {
  DTRAIN_CHECK(val_share >= 0 && val_share < 1, "validation share ", val_share);
  DTRAIN_CHECK(train_share > 0 && train_share <= 1, "training share ", train_share);
  Splits result{
      store.origin().split("train"), store.origin().split("val"), store.origin().split("test"), {}};
  if (result.train.empty()) result.train = all_but(store.schema().samples, result.val, result.test);
  if (result.val.empty() && val_share > 0) hold_out(store, val_share, seed, result);
  if (train_share < 1 && !result.train.empty()) keep_share(store, train_share, seed, result.train);
  return result;
}

uint64_t checksum(const Splits& splits) {
  uint64_t sum = 0;
  for (const auto* ids : {&splits.train, &splits.val, &splits.test})
    sum = xxh64(std::as_bytes(std::span(*ids)), sum);
  return sum;
}

}  // namespace dtrain::data

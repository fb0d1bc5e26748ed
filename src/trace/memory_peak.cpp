#include "trace/memory_peak.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace dtrain::trace {
namespace {

// What is held after the first `count` changes.
std::vector<HeldBy> held_after(std::span<const MemoryChange> changes) {
  std::unordered_map<uint64_t, const MemoryChange*> live;
  for (const MemoryChange& change : changes) {
    if (change.bytes > 0) {
      live[change.address] = &change;
    } else {
      live.erase(change.address);
    }
  }
  std::map<int32_t, HeldBy> by_owner;
  for (const auto& [address, change] : live) {
    HeldBy& held = by_owner[change->owner];
    held.owner = change->owner;
    held.bytes += change->bytes;
    ++held.tensors;
  }
  std::vector<HeldBy> sorted;
  for (const auto& [owner, held] : by_owner) sorted.push_back(held);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const HeldBy& a, const HeldBy& b) { return a.bytes > b.bytes; });
  return sorted;
}

}  // namespace

MemoryPeak peak_within(std::span<const MemoryChange> changes,
                       std::span<const TimeRange> intervals) {
  MemoryPeak peak;
  int64_t held = 0;
  size_t next = 0, at = 0;
  const auto consider = [&] {
    if (held <= peak.bytes) return;
    peak.bytes = held;
    at = next;
  };
  for (const TimeRange& interval : intervals) {
    while (next < changes.size() && changes[next].time < interval.begin)
      held += changes[next++].bytes;
    consider();
    while (next < changes.size() && changes[next].time <= interval.end) {
      held += changes[next++].bytes;
      consider();
    }
  }
  peak.held = held_after(changes.first(at));
  return peak;
}

}  // namespace dtrain::trace

#pragma once

// How the loops on the CPU cut their work into parts. Pure, thread-safe.

#include <algorithm>
#include <cstdint>

namespace dtrain::kernels {

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The work on a sum over `items` with `columns`: each part of the items has sums of its own, and
// each of its groups of columns can run on a thread of its own.
struct SumParts {
  int64_t parts, groups;
};

// One part per thread. Where the sums of all parts, `numbers` each, would take too much memory,
// there are fewer, and threads share items and have other columns.
inline SumParts parts_of_sums(int64_t items, int64_t columns, int64_t numbers, int64_t threads) {
  constexpr int64_t kMostSums = 16 << 20;
  const int64_t most = std::max<int64_t>(1, kMostSums / numbers);
  const int64_t parts = std::max<int64_t>(1, std::min({threads, items, most}));
  return {parts, std::clamp<int64_t>(threads / parts, 1, columns)};
}

}  // namespace dtrain::kernels

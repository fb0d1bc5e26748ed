#include "kernels/batch_norm_blocks.h"

#include <algorithm>

#include "kernels/work_parts.h"

namespace dtrain::kernels::batch_norm::blocks {
namespace {

constexpr int64_t kBlocks = 2048;  // enough to keep any GPU busy to the end
// Rows per thread. Fewer would make the partial sums, which are written and read again, a large
// part of the traffic; more would make long chains of additions.
constexpr int64_t kFewestRows = 4, kMostRows = 256;

// The largest power of two up to `most` that leaves at most a quarter of the threads without work.
int threads_across(int64_t groups, int most) {
  int across = most;
  while (across > 1 && divide_up(groups, across) * across * 3 > groups * 4) across /= 2;
  return across;
}

}  // namespace

Grid grid_of(const RowTable& table, int width) {
  const int64_t groups = divide_up(table.columns, width);
  Grid grid;
  // With lengths it does not depend on the columns, so that padding does not change the order
  // of additions.
  grid.across =
      table.lengths != nullptr ? 32 : threads_across(groups, table.channels_last ? 32 : kThreads);
  grid.tiles = table.channels_last ? divide_up(groups, grid.across) : table.channels;
  const int64_t down = kThreads / grid.across, fewest = table.channels_last ? kFewestRows : 1;
  grid.rows_per_part =
      down * std::clamp(table.rows * grid.tiles / (down * kBlocks), fewest, kMostRows);
  grid.parts = divide_up(table.rows, grid.rows_per_part);
  return grid;
}

}  // namespace dtrain::kernels::batch_norm::blocks

#include "layers/batch_norm_blocks.h"

#include <algorithm>
#include <vector>

#include "layers/batch_norm_blocks_body.h"
#include "layers/work_parts.h"

namespace dtrain::layers::batch_norm::blocks {
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

template <typename Kernel>
void run_blocks(const Kernel& kernel) {
  std::vector<typename Kernel::Memory> memory(Kernel::kMemory);
  for (int64_t block = 0; block < kernel.blocks(); ++block) {
    for (int phase = 0; phase < kernel.phases(); ++phase) {
      for (int thread = 0; thread < kThreads; ++thread)
        kernel.run(phase, block, thread, memory.data());
    }
  }
}

}  // namespace

Grid grid_of(const Table& table, int width) {
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

LaunchResult run_on_cpu(const TensorJob& job, void*) {
  const auto use = [](const auto& kernel) { run_blocks(kernel); };
  if (job.type == Type::kFloat) with_kernel<float>(job, use);
  if (job.type == Type::kHalf) with_kernel<c10::Half>(job, use);
  if (job.type == Type::kBFloat16) with_kernel<c10::BFloat16>(job, use);
  if (job.type == Type::kDouble) with_kernel<double>(job, use);
  return 0;
}

LaunchResult run_on_cpu(const ChannelJob& job, void*) {
  const auto use = [](const auto& kernel) { run_blocks(kernel); };
  job.wide ? with_kernel<double>(job, use) : with_kernel<float>(job, use);
  return 0;
}

}  // namespace dtrain::layers::batch_norm::blocks

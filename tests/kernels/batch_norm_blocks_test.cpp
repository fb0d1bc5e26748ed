// The GPU's kernels of batch norm, run on the CPU block by block: how they divide a tensor, and
// what their functions make of it. layers/norm_kernels_test.cpp has batch norm by these kernels.

#include "kernels/batch_norm_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/batch_norm_blocks_body.h"
#include "kernels/batch_norm_gpu.h"
#include "support/blocks_on_cpu.h"

namespace dtrain::kernels::batch_norm {
namespace {

using blocks::RowTable;
using testing::kOnCpu;

// ---- how the elements are divided ---------------------------------------------------------------

template <int width>
std::vector<int> visits_per_element(const RowTable& table) {
  std::vector<int> visits(
      static_cast<size_t>(table.rows * table.columns * (table.channels_last ? 1 : table.channels)));
  const blocks::Grid grid = blocks::grid_of(table, width);
  for (int64_t block = 0; block < grid.tiles * grid.parts; ++block) {
    for (int thread = 0; thread < blocks::kThreads; ++thread) {
      const blocks::Visits v = blocks::visits_of<width>(table, grid, block, thread);
      blocks::for_visits(v, [&](int64_t index, int64_t row, int64_t column) {
        for (int w = 0; w < width; ++w) {
          ++visits.at(static_cast<size_t>(index + w));
          const int64_t channel = v.channel + w * v.channel_step;
          const int64_t expected =
              table.channels_last ? row * table.columns + channel
                                  : (row * table.channels + channel) * table.columns + column + w;
          EXPECT_EQ(index + w, expected);
        }
      });
    }
  }
  return visits;
}

TEST(BlocksGrid, VisitsEachElementOnceWithItsChannel) {
  for (const int64_t columns : {1, 2, 4, 12, 24, 40, 72, 144, 320, 1032, 2100}) {
    for (const int64_t rows : {1, 3, 64, 300}) {
      const std::vector<int64_t> lengths(static_cast<size_t>(rows), columns);
      const RowTable last = {rows, columns, columns, true, nullptr},
                     first = {rows, columns, 3, false, nullptr},
                     padded = {rows, columns, 3, false, lengths.data()};
      for (const RowTable& table : {last, first, padded}) {
        SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(columns) + " columns");
        EXPECT_THAT(visits_per_element<1>(table), ::testing::Each(1));
        if (columns % 4 == 0) {
          EXPECT_THAT(visits_per_element<4>(table), ::testing::Each(1));
        }
        if (columns % 8 == 0) {
          EXPECT_THAT(visits_per_element<8>(table), ::testing::Each(1));
        }
      }
    }
  }
}

TEST(BlocksGrid, KeepsAGpuBusyWithFewIdleThreads) {
  const blocks::Grid wide = blocks::grid_of({64 * 56 * 56, 64, 64, true, nullptr}, 8);
  EXPECT_EQ(wide.across, 8);
  EXPECT_GE(wide.tiles * wide.parts, 1500);
  // 72 groups
  const blocks::Grid odd = blocks::grid_of({64 * 14 * 14, 576, 576, true, nullptr}, 8);
  EXPECT_EQ(odd.across * odd.tiles, 96);
  EXPECT_GE(odd.tiles * odd.parts, 200);
  // More than 32 bits count
  const blocks::Grid huge = blocks::grid_of({int64_t{1} << 31, 32, 32, true, nullptr}, 4);
  EXPECT_LE(huge.rows_per_part / (blocks::kThreads / huge.across), 256);
  EXPECT_LT(huge.tiles * huge.parts, int64_t{1} << 31);
}

// ---- what the functions compute -----------------------------------------------------------------

TEST(Blocks, TakeTensorsThatAreNotAligned) {
  at::manual_seed(5);
  const at::Tensor memory = at::randn({1 + 4 * 16 * 6 * 6});
  const at::Tensor x = memory.slice(0, 1).view({4, 6, 6, 16}).permute({0, 3, 1, 2});
  ASSERT_NE(reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16, 0u);
  const Affine affine = {at::ones({16}), at::zeros({16}), at::zeros({16}), at::ones({16})};
  EXPECT_TRUE(at::equal(gpu::normalize(kOnCpu, x, {}, affine, {}).y, x));
  const at::Tensor sums = gpu::sums(kOnCpu, x, {});
  EXPECT_TRUE(at::allclose(sums.slice(0, 1, 17), x.sum({0, 2, 3}, false, at::kDouble), 1e-5, 1e-4));
}

TEST(Blocks, SumsHaveTheOriginOfTheFirstValidValue) {
  const at::Tensor x = at::randn({4, 6, 9}) + 1000, lengths = at::tensor({0, 4, 9, 0}, at::kLong);
  const at::Tensor valid = at::cat({x[1].slice(1, 0, 4), x[2]}, 1).to(at::kDouble);
  const at::Tensor sums = gpu::sums(kOnCpu, x, lengths);
  const at::Tensor mean = sums.slice(0, 1, 7) / 13, variance = sums.slice(0, 7) / 13 - mean * mean;
  EXPECT_EQ(sums[0].item<double>(), 13);
  EXPECT_TRUE(at::allclose(mean, valid.mean(1), 1e-9));
  EXPECT_TRUE(at::allclose(variance, valid.var(1, false), 1e-5))
      << "the mean is 1000 times the deviation";
  EXPECT_TRUE(
      at::equal(gpu::sums(kOnCpu, x, at::zeros({4}, at::kLong)), at::zeros({13}, at::kDouble)));
}

TEST(Blocks, FixedStatisticsAreCopiesOfTheRunningOnes) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor mean = at::linspace(-1, 2, 300, dtype),
                     variance = at::linspace(0.5, 3, 300, dtype);
    const at::Tensor batches = at::zeros({}, at::kLong);
    const Statistics fixed = gpu::fixed_statistics(kOnCpu, {mean, variance, batches, 0.1, 1e-5});
    EXPECT_TRUE(at::equal(fixed.mean, mean));
    EXPECT_NE(fixed.mean.data_ptr(), mean.data_ptr()) << "they may change before backward";
    EXPECT_TRUE(at::allclose(fixed.invstd, (variance + 1e-5).rsqrt(),
                             dtype == at::kDouble ? 1e-15 : 1e-6, 0));
    EXPECT_EQ(fixed.count.item<double>(), 1);
    EXPECT_EQ(batches.item<int64_t>(), 0);
  }
}

}  // namespace
}  // namespace dtrain::kernels::batch_norm

#include "data/order/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "data/order/ledger.h"

namespace dtrain::data {
namespace {

std::vector<int64_t> order(int64_t n, uint64_t key) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < n; ++i) result.push_back(permuted(i, n, key));
  return result;
}

TEST(Permuted, IsABijectionForEverySize) {
  std::vector<int64_t> sizes(70);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (int bits = 7; bits <= 16; ++bits) {
    for (int64_t d = -1; d <= 1; ++d) sizes.push_back((int64_t{1} << bits) + d);
  }
  sizes.push_back(100000);
  for (int64_t n : sizes) {
    for (uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      std::vector<int64_t> seen = order(n, key);
      std::sort(seen.begin(), seen.end());
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(seen[static_cast<size_t>(i)], i) << "n = " << n << ", key " << key;
    }
  }
}

TEST(Permuted, StaysInRangeAtHugeSizes) {
  const int64_t n = (int64_t{1} << 62) + 3;
  std::vector<int64_t> seen;
  for (int64_t i : {int64_t{0}, int64_t{1}, n / 2, n - 1}) seen.push_back(permuted(i, n, 7));
  for (int64_t value : seen) EXPECT_TRUE(0 <= value && value < n);
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

TEST(Permuted, RefusesIndicesOutOfRange) {
  EXPECT_THROW(permuted(5, 5, 1), Error);
  EXPECT_THROW(permuted(-1, 5, 1), Error);
  EXPECT_THROW(permuted(0, 0, 1), Error);
}

TEST(Permuted, DifferentKeysAndEpochsDiffer) {
  EXPECT_NE(order(1000, 1), order(1000, 2));
  EXPECT_NE(order(10, 1), order(10, 2));
  const auto epoch_key = [](uint64_t epoch) {
    return keyed(static_cast<uint64_t>(Purpose::kPermutation), uint64_t{1}, epoch);
  };
  EXPECT_NE(order(1000, epoch_key(0)), order(1000, epoch_key(1)));
}

// Over many keys, each position gets each value about equally often (chi-square with (n-1)^2
// degrees of freedom, within 5 standard deviations), and neighbors stay neighbors about (n-1)/n
// times per permutation.
TEST(Permuted, IsRoughlyUniform) {
  constexpr int64_t keys = 20000;
  for (int64_t n : {3, 5, 10, 40}) {
    std::vector<std::vector<int64_t>> counts(static_cast<size_t>(n),
                                             std::vector<int64_t>(static_cast<size_t>(n)));
    int64_t successors = 0;
    for (uint64_t key = 0; key < keys; ++key) {
      int64_t previous = -2;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t value = permuted(i, n, mix64(key));
        ++counts[static_cast<size_t>(i)][static_cast<size_t>(value)];
        successors += value == previous + 1;
        previous = value;
      }
    }
    const double expected = static_cast<double>(keys) / static_cast<double>(n);
    double chi_square = 0;
    for (const auto& row : counts) {
      for (int64_t count : row)
        chi_square += (double(count) - expected) * (double(count) - expected) / expected;
    }
    const double freedom = double(n - 1) * double(n - 1);
    EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom)) << "n = " << n;
    EXPECT_NEAR(double(successors) / keys, double(n - 1) / double(n), 0.05) << "n = " << n;
  }
}

TEST(Part, CoversTheRangeWithSizesThatDifferByAtMostOne) {
  for (int64_t n = 0; n <= 20; ++n) {
    for (int64_t parts = 1; parts <= 9; ++parts) {
      int64_t next = 0, previous = n;
      for (int64_t i = 0; i < parts; ++i) {
        const Range range = part(n, parts, i);
        EXPECT_EQ(range.begin, next);
        EXPECT_TRUE(range.size() == n / parts || range.size() == n / parts + 1);
        EXPECT_LE(range.size(), previous) << "larger ones come first";
        previous = range.size();
        next = range.end;
      }
      EXPECT_EQ(next, n);
    }
  }
  EXPECT_THROW(part(3, 2, 2), Error);
  EXPECT_THROW(part(3, 0, 0), Error);
}

TEST(GlobalBatch, CountsEpochsAndKeepsTheSmallerLastBatch) {
  EXPECT_EQ(steps_per_epoch(10, 4), 3);
  EXPECT_EQ(steps_per_epoch(8, 4), 2);
  EXPECT_EQ(steps_per_epoch(1, 100), 1);
  const GlobalBatch tail = global_batch(5, 10, 4);
  EXPECT_EQ(tail.epoch, 1);
  EXPECT_EQ(tail.positions.begin, 8);
  EXPECT_EQ(tail.positions.end, 10);
  EXPECT_EQ(global_batch(6, 10, 4).epoch, 2);
  EXPECT_THROW(global_batch(-1, 10, 4), Error);
  EXPECT_THROW(steps_per_epoch(0, 4), Error);
  EXPECT_THROW(steps_per_epoch(4, 0), Error);
}

// For any number of ranks and any micro-batch size, an epoch uses each position once, in the
// same step.
TEST(MicroPlan, UsesEveryPositionOnceInItsStepForAnyWorldSize) {
  for (int64_t samples : {1, 2, 5, 16, 37}) {
    for (int64_t global : {1, 3, 8, 16, 50}) {
      for (int size : {1, 2, 3, 4, 7}) {
        for (int64_t batch_size : {1, 2, 5, 64}) {
          std::vector<int> seen(static_cast<size_t>(samples), 0);
          for (int64_t step = 0; step < steps_per_epoch(samples, global); ++step) {
            const GlobalBatch batch = global_batch(step, samples, global);
            int64_t micro_steps = -1, smallest = samples, largest = 0;
            for (int rank = 0; rank < size; ++rank) {
              const MicroPlan plan = micro_plan(batch, batch_size, {rank, size});
              ASSERT_EQ(static_cast<int64_t>(plan.micro.size()), plan.micro_steps);
              ASSERT_TRUE(rank == 0 || plan.micro_steps == micro_steps) << "ranks disagree";
              micro_steps = plan.micro_steps;
              int64_t share = 0;
              for (const Range& range : plan.micro) {
                ASSERT_LE(range.size(), batch_size);
                share += range.size();
                for (int64_t i = range.begin; i < range.end; ++i) {
                  ASSERT_TRUE(batch.positions.begin <= i && i < batch.positions.end);
                  ++seen[static_cast<size_t>(i)];
                }
              }
              smallest = std::min(smallest, share);
              largest = std::max(largest, share);
            }
            ASSERT_LE(largest - smallest, 1) << "shares differ by at most one sample";
            ASSERT_EQ(micro_steps, std::max<int64_t>(1, (largest + batch_size - 1) / batch_size));
          }
          for (int count : seen) ASSERT_EQ(count, 1);
        }
      }
    }
  }
}

// Whether some numbers from 2 to `most` add up to `samples`: a division in which no rank
// gets one sample.
bool divides_without_single(int64_t samples, int64_t most) {
  std::vector<bool> reached(static_cast<size_t>(samples) + 1, false);
  reached[0] = true;
  for (int64_t sum = 0; sum <= samples; ++sum) {
    for (int64_t size = 2;
         size <= most && sum + size <= samples && reached[static_cast<size_t>(sum)]; ++size) {
      reached[static_cast<size_t>(sum + size)] = true;
    }
  }
  return reached[static_cast<size_t>(samples)];
}

std::vector<std::vector<int64_t>> sizes_of(const std::vector<MicroPlan>& plans) {
  std::vector<std::vector<int64_t>> sizes;
  for (const MicroPlan& plan : plans) {
    std::vector<int64_t>& own = sizes.emplace_back();
    for (const Range& range : plan.micro) own.push_back(range.size());
  }
  return sizes;
}

bool has(const std::vector<std::vector<int64_t>>& sizes, int64_t size) {
  return std::ranges::any_of(sizes,
                             [&](const auto& own) { return std::ranges::count(own, size) > 0; });
}

// For all small trainings: each position once and in order, no micro-batch of more than batch_size
// samples, equal numbers of micro-steps, a single sample only where every division has one, and
// nothing changed where there was none.
TEST(TrainingPlan, HasASingleSampleOnlyWhereEveryDivisionHas) {
  int changed = 0;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (int64_t batch_size = 1; batch_size <= 6; ++batch_size) {
      for (int64_t samples = 1; samples <= 3 * ranks * batch_size + 1; ++samples) {
        SCOPED_TRACE(::testing::Message()
                     << samples << " samples, " << ranks << " ranks, batch " << batch_size);
        const GlobalBatch batch{.epoch = 0, .positions = {7, 7 + samples}};
        std::vector<MicroPlan> even, plans;
        int64_t next = batch.positions.begin;
        for (int rank = 0; rank < ranks; ++rank) {
          even.push_back(micro_plan(batch, batch_size, {rank, ranks}));
          plans.push_back(training_plan(batch, batch_size, {rank, ranks}));
          ASSERT_EQ(plans.back().micro_steps, even.front().micro_steps);
          ASSERT_EQ(static_cast<int64_t>(plans.back().micro.size()), even.front().micro_steps);
          for (const Range& range : plans.back().micro) {
            ASSERT_EQ(range.begin, next);
            ASSERT_TRUE(0 <= range.size() && range.size() <= batch_size);
            next = range.end;
          }
        }
        ASSERT_EQ(next, batch.positions.end);
        const auto sizes = sizes_of(plans);
        const bool avoidable = divides_without_single(samples, batch_size);
        ASSERT_EQ(has(sizes, 1), has(sizes_of(even), 1) && !avoidable);
        ASSERT_EQ(has_single(samples, batch_size, ranks), has(sizes, 1));
        if (!has(sizes_of(even), 1) || !avoidable) {
          ASSERT_EQ(sizes, sizes_of(even)) << "changed without need";
        } else {
          ++changed;
          ASSERT_GE(sizes[0][0], 2) << "the first rank has the most";
        }
        for (const auto& own : sizes) ASSERT_LE(std::ranges::max(own), sizes[0][0]);
      }
    }
  }
  EXPECT_GT(changed, 100);
}

TEST(TrainingPlan, Examples) {
  const auto plan = [](int64_t samples, int64_t batch_size, int ranks) {
    std::vector<MicroPlan> plans;
    for (int rank = 0; rank < ranks; ++rank) {
      plans.push_back(
          training_plan({.epoch = 0, .positions = {0, samples}}, batch_size, {rank, ranks}));
    }
    return sizes_of(plans);
  };
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(plan(2, 5, 2), (Sizes{{2}, {0}}));
  EXPECT_EQ(plan(3, 5, 2), (Sizes{{3}, {0}}));
  EXPECT_EQ(plan(5, 5, 4), (Sizes{{3}, {2}, {0}, {0}}));
  EXPECT_EQ(plan(7, 3, 2), (Sizes{{3, 2}, {2, 0}}));
  EXPECT_EQ(plan(6, 2, 2), (Sizes{{2, 2}, {2, 0}}));
  EXPECT_EQ(plan(5, 2, 2), (Sizes{{2, 1}, {1, 1}})) << "no division avoids it";
  EXPECT_EQ(plan(1, 5, 2), (Sizes{{1}, {0}}));
  EXPECT_EQ(plan(4, 5, 2), (Sizes{{2}, {2}}));
}

TEST(DivisionSize, IsOneWhereAFullStepGivesEachRankOneSample) {
  EXPECT_EQ(division_size(32, 4, 4), 1);
  EXPECT_EQ(division_size(32, 3, 4), 1);
  EXPECT_EQ(division_size(32, 5, 4), 32);
  EXPECT_EQ(division_size(1, 8, 4), 1);
}

TEST(Ledger, DependsOnTheSamplesAndTheEpochButNotTheOrder) {
  Ledger forward, backward, other_epoch, resumed;
  for (int64_t id = 0; id < 100; ++id) forward.add(3, id);
  for (int64_t id = 99; id >= 0; --id) backward.add(3, id);
  for (int64_t id = 0; id < 100; ++id) other_epoch.add(4, id);
  EXPECT_EQ(forward.value(), backward.value());
  EXPECT_NE(forward.value(), other_epoch.value());
  for (int64_t id = 0; id < 50; ++id) resumed.add(3, id);
  Ledger continued(resumed.value());
  for (int64_t id = 50; id < 100; ++id) continued.add(3, id);
  EXPECT_EQ(continued.value(), forward.value());
}

}  // namespace
}  // namespace dtrain::data

#include "data/order/epoch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "data/order/shard.h"

namespace dtrain::data {
namespace {

int64_t length_of(int64_t index) {
  return 1 + static_cast<int64_t>(keyed(3, static_cast<uint64_t>(index)) % 400);
}

std::vector<int64_t> epoch(EpochOrder& order, int64_t samples, int64_t number = 0) {
  std::vector<int64_t> result;
  for (int64_t position = 0; position < samples; ++position)
    result.push_back(order(number, position));
  return result;
}

std::vector<int64_t> epoch(int64_t samples, EpochOrderOptions options, int64_t number = 0) {
  EpochOrder order(samples, options, length_of);
  return epoch(order, samples, number);
}

TEST(EpochOrder, WithoutAWindowItIsThePermutation) {
  const auto key = keyed(static_cast<uint64_t>(Purpose::kPermutation), uint64_t{9}, uint64_t{2});
  const std::vector<int64_t> order = epoch(50, {.seed = 9, .global_batch = 4}, 2);
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], permuted(i, 50, key));
}

TEST(EpochOrder, WithoutShuffleTheWindowIsIgnored) {
  std::vector<int64_t> expected(30);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(epoch(30, {.shuffle = false, .global_batch = 4, .length_window = 3}, 5), expected);
}

TEST(LengthWindow, UsesEverySampleOnceAnEpoch) {
  for (int64_t samples : {1, 2, 7, 16, 37, 64, 100}) {
    for (int64_t global : {1, 3, 8, 50}) {
      for (int64_t window : {1, 2, 5, 1000}) {
        std::vector<int64_t> order =
            epoch(samples, {.global_batch = global, .length_window = window}, 3);
        std::sort(order.begin(), order.end());
        for (int64_t i = 0; i < samples; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
      }
    }
  }
}

// Any position can be computed without the positions before it, so seeking and all ranks see the
// same order.
TEST(LengthWindow, DoesNotDependOnEarlierPositions) {
  const EpochOrderOptions options{.seed = 5, .global_batch = 6, .length_window = 4};
  const std::vector<int64_t> first = epoch(103, options, 0), second = epoch(103, options, 1);
  EXPECT_NE(first, second);
  EpochOrder order(103, options, length_of);
  for (int64_t i = 0; i < 500; ++i) {
    const auto word = keyed(1, static_cast<uint64_t>(i));
    const auto position = static_cast<int64_t>(word % 103);
    const std::vector<int64_t>& expected = word >> 40 & 1 ? second : first;
    ASSERT_EQ(order(word >> 40 & 1 ? 1 : 0, position), expected[static_cast<size_t>(position)]);
  }
  EXPECT_NE(epoch(103, {.seed = 6, .global_batch = 6, .length_window = 4}), first);
}

// Each batch is a contiguous range of the sorted window, so it is sorted and contains only samples
// of its window.
TEST(LengthWindow, BatchesAreContiguousRangesOfTheSortedWindow) {
  constexpr int64_t samples = 103, global = 6, window = 4;
  const std::vector<int64_t> order =
      epoch(samples, {.seed = 5, .global_batch = global, .length_window = window});
  const auto key = keyed(static_cast<uint64_t>(Purpose::kPermutation), uint64_t{5}, uint64_t{0});
  for (int64_t begin = 0; begin < samples; begin += window * global) {
    const int64_t end = std::min(begin + window * global, samples);
    std::vector<int64_t> sorted;
    for (int64_t i = begin; i < end; ++i) sorted.push_back(permuted(i, samples, key));
    std::sort(sorted.begin(), sorted.end(), [](int64_t a, int64_t b) {
      return std::make_pair(length_of(a), a) < std::make_pair(length_of(b), b);
    });
    for (int64_t at = begin; at < end; at += global) {
      const auto count = static_cast<size_t>(std::min(global, end - at));
      const std::vector<int64_t> batch(order.begin() + at,
                                       order.begin() + at + static_cast<int64_t>(count));
      const auto found = std::search(sorted.begin(), sorted.end(), batch.begin(), batch.end());
      ASSERT_NE(found, sorted.end()) << "positions from " << at;
      sorted.erase(found, found + static_cast<int64_t>(count));
    }
    EXPECT_TRUE(sorted.empty());
  }
}

// The order of batches within a window is random, and so is the part of the window that the smaller
// last batch takes.
TEST(LengthWindow, TheOrderOfBatchesAndTheLastBatchAreRandom) {
  std::set<int64_t> places_of_the_shortest, tails;
  int64_t rising = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<int64_t> order =
        epoch(43, {.seed = seed, .global_batch = 4, .length_window = 100});
    std::vector<int64_t> firsts;
    for (size_t at = 0; at < 40; at += 4) firsts.push_back(length_of(order[at]));
    places_of_the_shortest.insert(std::min_element(firsts.begin(), firsts.end()) - firsts.begin());
    tails.insert(order[40]);
    for (size_t i = 1; i < firsts.size(); ++i) rising += firsts[i] > firsts[i - 1];
  }
  EXPECT_EQ(places_of_the_shortest.size(), 10u);
  EXPECT_EQ(tails.size(), 11u) << "the last batch may begin at any border of the sorted window";
  EXPECT_NEAR(static_cast<double>(rising), 200 * 9 / 2.0, 100)
      << "batches must not be sorted by length";
}

TEST(LengthWindow, RemovesMostOfThePadding) {
  const auto padded = [](int64_t window) {
    constexpr int64_t samples = 4096, global = 64;
    const std::vector<int64_t> order =
        epoch(samples, {.global_batch = global, .length_window = window});
    int64_t sum = 0;
    for (int64_t at = 0; at < samples; at += global) {
      int64_t longest = 0;
      for (int64_t i = at; i < at + global; ++i)
        longest = std::max(longest, length_of(order[static_cast<size_t>(i)]));
      sum += longest * global;
    }
    return static_cast<double>(sum);
  };
  int64_t rows = 0;
  for (int64_t i = 0; i < 4096; ++i) rows += length_of(i);
  EXPECT_GT(1 - static_cast<double>(rows) / padded(0), 0.45)
      << "random batches of 64: half is padding";
  EXPECT_LT(1 - static_cast<double>(rows) / padded(16), 0.06);
}

TEST(LengthWindow, RefusesInvalidWindows) {
  EXPECT_THROW(length_window({10, 4, 1}, 3, 1, length_of), Error);
  EXPECT_THROW(length_window({10, 4, 0}, 0, 1, length_of), Error);
  EXPECT_THROW(EpochOrder(0, {}, length_of), Error);
}

}  // namespace
}  // namespace dtrain::data

#include "data/order/micro_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/error.h"

namespace dtrain::data {
namespace {

using Ids = std::vector<int64_t>;

// Ids that differ from positions: 100, 103, 106, ...
Ids ids_of(int64_t count) {
  Ids ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(100 + 3 * i);
  return ids;
}

int64_t row_length_of(int64_t id) { return 1 + id % 7; }

std::vector<MicroBatch> all_of(MicroBatches& batches) {
  std::vector<MicroBatch> result;
  while (!batches.done()) {
    const int64_t announced = batches.samples();
    result.push_back(batches.next());
    EXPECT_EQ(static_cast<int64_t>(result.back().ids.size()), announced);
  }
  return result;
}

// For any number of ranks, the micro-batches of a step together contain the same samples exactly
// once, and an epoch contains all samples.
TEST(MicroBatches, RanksTogetherGiveTheGlobalBatch) {
  // 3 steps per epoch; the last one has 3 samples
  constexpr int64_t kSamples = 23, kGlobal = 10, kSteps = 6;
  for (const int64_t window : {0, 2}) {
    std::vector<std::multiset<int64_t>> expected;
    for (const int size : {1, 2, 3, 7, 12}) {
      SCOPED_TRACE(::testing::Message() << size << " ranks, window " << window);
      std::vector<std::multiset<int64_t>> used(kSteps);
      std::vector<int64_t> micro_steps(kSteps);
      for (int rank = 0; rank < size; ++rank) {
        MicroBatches batches(
            ids_of(kSamples),
            {.batch_size = 3, .global_batch = kGlobal, .steps = kSteps, .length_window = window},
            {rank, size}, row_length_of);
        MicroStep at;
        for (const MicroBatch& batch : all_of(batches)) {
          const auto step = static_cast<size_t>(batch.at.step);
          ASSERT_EQ(batch.at.step, at.step);
          ASSERT_EQ(batch.at.micro, at.micro);
          ASSERT_EQ(batch.epoch, batch.at.step / 3);
          ASSERT_EQ(batch.global_samples, batch.at.step % 3 == 2 ? 3 : kGlobal);
          ASSERT_LE(static_cast<int64_t>(batch.ids.size()), batches.largest());
          if (rank == 0) micro_steps[step] = batch.micro_steps;
          ASSERT_EQ(batch.micro_steps, micro_steps[step]) << "ranks disagree";
          used[step].insert(batch.ids.begin(), batch.ids.end());
          at.advance(batch.micro_steps);
        }
        ASSERT_EQ(at.step, kSteps);
      }
      if (expected.empty()) expected = used;
      EXPECT_EQ(used, expected);
    }
    for (const size_t first : {size_t{0}, size_t{3}}) {
      std::multiset<int64_t> epoch;
      for (size_t step = first; step < first + 3; ++step)
        epoch.insert(expected[step].begin(), expected[step].end());
      const Ids all = ids_of(kSamples);
      EXPECT_EQ(epoch, std::multiset<int64_t>(all.begin(), all.end()));
    }
    EXPECT_NE(expected[0], expected[3]) << "each epoch has another order";
  }
}

TEST(MicroBatches, SeekEqualsSkipping) {
  const OrderOptions options{.batch_size = 2, .global_batch = 8, .steps = 12, .length_window = 2};
  MicroBatches straight(ids_of(31), options, {1, 2}, row_length_of);
  const std::vector<MicroBatch> all = all_of(straight);
  MicroBatches seeking(ids_of(31), options, {1, 2}, row_length_of);
  for (const int64_t from : {7, 0, 11, 4}) {
    seeking.seek(from);
    auto expected = std::find_if(all.begin(), all.end(),
                                 [&](const MicroBatch& b) { return b.at.step == from; });
    for (; expected != all.end(); ++expected) {
      ASSERT_FALSE(seeking.done());
      const MicroBatch batch = seeking.next();
      ASSERT_EQ(batch.ids, expected->ids)
          << "step " << batch.at.step << " after a seek to " << from;
      ASSERT_EQ(batch.at.step, expected->at.step);
      ASSERT_EQ(batch.at.micro, expected->at.micro);
      ASSERT_EQ(batch.rows, expected->rows);
    }
    EXPECT_TRUE(seeking.done());
  }
  seeking.seek(12);
  EXPECT_TRUE(seeking.done());
}

TEST(MicroBatches, WithoutShuffleKeepsTheOrderOfTheIds) {
  const Ids ids{9, 4, 7, 1, 8};
  MicroBatches batches(ids, {.batch_size = 2, .global_batch = 2, .steps = 3, .shuffle = false},
                       {0, 1});
  EXPECT_EQ(batches.steps_per_epoch(), 3);
  Ids order;
  for (const MicroBatch& batch : all_of(batches)) {
    order.insert(order.end(), batch.ids.begin(), batch.ids.end());
    EXPECT_EQ(batch.rows, 0) << "samples have no length";
  }
  EXPECT_EQ(order, ids);
}

TEST(MicroBatches, CountsTheRowsOfItsSamples) {
  MicroBatches batches(ids_of(20),
                       {.batch_size = 4, .global_batch = 8, .steps = 5, .length_window = 2}, {0, 2},
                       row_length_of);
  for (const MicroBatch& batch : all_of(batches)) {
    int64_t rows = 0;
    for (const int64_t id : batch.ids) rows += row_length_of(id);
    EXPECT_EQ(batch.rows, rows);
  }
}

// A window sorts by length, so a batch of one window has a smaller spread of lengths than a
// random one.
TEST(MicroBatches, ALengthWindowGroupsSimilarLengths) {
  const auto spread = [](int64_t window) {
    MicroBatches batches(ids_of(400),
                         {.batch_size = 8, .global_batch = 8, .steps = 50, .length_window = window},
                         {0, 1}, row_length_of);
    int64_t sum = 0;
    for (const MicroBatch& batch : all_of(batches)) {
      const auto [least, most] = std::minmax_element(
          batch.ids.begin(), batch.ids.end(),
          [](int64_t a, int64_t b) { return row_length_of(a) < row_length_of(b); });
      sum += row_length_of(*most) - row_length_of(*least);
    }
    return sum;
  };
  EXPECT_LT(spread(50), spread(0) / 3);
}

TEST(MicroBatches, AShareMayBeEmpty) {
  MicroBatches batches(ids_of(2), {.batch_size = 4, .global_batch = 20, .steps = 3}, {4, 5});
  EXPECT_EQ(batches.largest(), 1);
  for (const MicroBatch& batch : all_of(batches)) {
    EXPECT_TRUE(batch.ids.empty());
    EXPECT_EQ(batch.micro_steps, 1);
    EXPECT_EQ(batch.global_samples, 2);
  }
}

// What buffers are made for: no micro-batch of any rank is larger, and some rank has one of
// this size.
TEST(MicroBatches, ATrainingKnowsItsLargest) {
  for (const int size : {1, 2, 3, 5}) {
    for (const int64_t batch_size : {1, 2, 3, 6}) {
      for (const int64_t global : {1, 2, 5, 6, 12}) {
        for (int64_t samples = 1; samples <= 14; ++samples) {
          SCOPED_TRACE(::testing::Message() << size << " ranks, batch " << batch_size << ", global "
                                            << global << ", " << samples << " samples");
          int64_t largest = 0, announced = 0;
          std::multiset<int64_t> used;
          for (int rank = 0; rank < size; ++rank) {
            OrderOptions options{
                .batch_size = batch_size, .global_batch = global, .avoid_single = true};
            options.steps = steps_per_epoch(samples, global);
            MicroBatches batches(ids_of(samples), options, {rank, size});
            announced = batches.largest();
            for (const MicroBatch& batch : all_of(batches)) {
              largest = std::max(largest, static_cast<int64_t>(batch.ids.size()));
              used.insert(batch.ids.begin(), batch.ids.end());
            }
          }
          ASSERT_EQ(announced, largest);
          const Ids all = ids_of(samples);
          ASSERT_EQ(used, std::multiset<int64_t>(all.begin(), all.end()));
        }
      }
    }
  }
}

TEST(MicroBatches, OnlyATrainingAvoidsASingleSample) {
  for (const auto& [avoid, expected] : {std::pair{false, Ids{1, 1}}, std::pair{true, Ids{2, 0}}}) {
    Ids sizes;
    for (int rank = 0; rank < 2; ++rank) {
      MicroBatches batches(ids_of(12), {.batch_size = 5, .global_batch = 10, .avoid_single = avoid},
                           {rank, 2});
      batches.seek(1);
      sizes.push_back(static_cast<int64_t>(batches.next().ids.size()));
    }
    EXPECT_EQ(sizes, expected);
  }
  // One sample for each rank in every step is what the user chose.
  MicroBatches chosen(ids_of(12), {.batch_size = 5, .global_batch = 2, .avoid_single = true},
                      {1, 2});
  EXPECT_EQ(chosen.samples(), 1);
}

TEST(MicroBatches, WithoutALimitItNeverEnds) {
  MicroBatches batches(ids_of(3), {.batch_size = 3, .global_batch = 3}, {0, 1});
  batches.seek(1'000'000'000);
  EXPECT_FALSE(batches.done());
  EXPECT_EQ(batches.next().epoch, 1'000'000'000);
}

TEST(MicroBatches, RequiresSamples) { EXPECT_THROW(MicroBatches({}, {}, {0, 1}), Error); }

// The lengths of classes are chosen by what all ranks will pad to, known to each of them.
TEST(MicroBatches, KnowTheLengthsOfAllRanks) {
  constexpr int64_t kSamples = 47, kGlobal = 12;  // four steps; the last has 11 samples
  for (const int64_t window : {0, 3}) {
    const OrderOptions options{
        .batch_size = 2, .global_batch = kGlobal, .steps = 4, .length_window = window};
    std::multiset<std::pair<int64_t, int64_t>> used, known;
    for (int rank = 0; rank < 3; ++rank) {
      MicroBatches batches(ids_of(kSamples), options, {rank, 3}, row_length_of);
      known.clear();
      for (const PaddedLength& one : batches.padded_lengths())
        known.insert({one.length, one.samples});
      for (const MicroBatch& batch : all_of(batches)) {
        int64_t longest = 0;
        for (const int64_t id : batch.ids) longest = std::max(longest, row_length_of(id));
        used.insert({longest, static_cast<int64_t>(batch.ids.size())});
      }
    }
    EXPECT_EQ(known, used) << "window " << window;
    MicroBatches batches(ids_of(kSamples), options, {0, 3}, row_length_of);
    EXPECT_EQ(batches.padded_lengths(/*most=*/13).size(), 12u)
        << "two steps of three ranks, two micro-steps each";
  }
}

}  // namespace
}  // namespace dtrain::data

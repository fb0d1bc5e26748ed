#include "train/batch_arithmetic.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "data/order/shard.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

config::Train train(int64_t batch, int64_t accumulate, int64_t global, int64_t epochs = 1) {
  config::Train t;
  t.batch_size = batch;
  t.accumulate = accumulate;
  t.global_batch = global;
  t.epochs = epochs;
  return t;
}

TEST(BatchArithmetic, TheGlobalBatchDefaultsToTheProduct) {
  const BatchArithmetic b = batch_arithmetic(train(32, 2, 0), 4, 1000);
  EXPECT_EQ(b.global_batch, 256);
  EXPECT_EQ(b.accumulate, 2);
  EXPECT_EQ(b.steps_per_epoch, 4);
  EXPECT_EQ(b.tail, 1000 - 3 * 256);
  EXPECT_NE(describe(b).find("global batch 256 = 4 ranks × 32 × accumulate 2"), std::string::npos)
      << describe(b);
}

TEST(BatchArithmetic, AccumulationIsDerivedAndMayNotDivide) {
  const BatchArithmetic b = batch_arithmetic(train(32, 0, 100), 2, 1000);
  EXPECT_EQ(b.accumulate, 2);
  EXPECT_NE(describe(b).find("global batch 100 <= "), std::string::npos) << describe(b);
}

TEST(BatchArithmetic, TheLargestMicroBatchIsOneThatOccurs) {
  EXPECT_EQ(largest_micro_batch(batch_arithmetic(train(32, 2, 0), 4, 1000)), 32);
  EXPECT_EQ(largest_micro_batch(batch_arithmetic(train(100000, 1, 0), 1, 3200)), 3200);
  EXPECT_EQ(largest_micro_batch(batch_arithmetic(train(100000, 1, 0), 3, 3200)), 1067);
  EXPECT_EQ(largest_micro_batch(batch_arithmetic(train(64, 0, 32), 2, 1000)), 16);
  EXPECT_EQ(largest_micro_batch(batch_arithmetic(train(64, 0, 5), 4, 1000)), 3)
      << "no rank has one sample";
  EXPECT_EQ(largest_micro_batch(batch_arithmetic(train(64, 0, 4), 4, 1000)), 1);
  EXPECT_EQ(largest_micro_batch(batch_arithmetic(train(64, 1, 0), 4, 3)), 3);
}

TEST(BatchArithmetic, MicroStepsCoverTheLargestShare) {
  EXPECT_EQ(micro_steps(128, 2, 32), 2);
  EXPECT_EQ(micro_steps(129, 2, 32), 3);
  EXPECT_EQ(micro_steps(1, 4, 32), 1);
  EXPECT_EQ(batch_arithmetic(train(32, 3, 128), 2, 1000).accumulate, 2)
      << "a global batch goes first";
}

TEST(BatchArithmetic, OneStepIsNotSteps) {
  EXPECT_NE(
      describe(batch_arithmetic(train(32, 1, 0), 1, 32)).find("; 1 step per epoch of 32 samples"),
      std::string::npos);
  EXPECT_EQ(describe(batch_arithmetic(train(32, 1, 0), 1, 20)).find("the last one"),
            std::string::npos);
  EXPECT_NE(
      describe(batch_arithmetic(train(32, 1, 0), 1, 33)).find("; 2 steps per epoch of 33 samples"),
      std::string::npos);
}

TEST(BatchArithmetic, MaxStepsCutsTheEpochs) {
  config::Train t = train(10, 0, 0, 5);
  EXPECT_EQ(batch_arithmetic(t, 1, 100).total_steps, 50);
  t.max_steps = 7;
  EXPECT_EQ(batch_arithmetic(t, 1, 100).total_steps, 7);
  t.max_steps = 700;
  EXPECT_EQ(batch_arithmetic(t, 1, 100).total_steps, 50);
}

// The banner and the loader agree.
TEST(BatchArithmetic, AgreesWithTheMicroPlan) {
  for (int64_t ranks : {1, 2, 3, 4}) {
    for (int64_t global : {7, 16, 100}) {
      const BatchArithmetic b = batch_arithmetic(train(8, 0, global), ranks, 1000);
      const data::GlobalBatch full = data::global_batch(0, 1000, b.global_batch);
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(data::micro_plan(full, 8, {rank, static_cast<int>(ranks)}).micro_steps,
                  b.accumulate);
      }
    }
  }
}

TEST(BatchArithmetic, KnowsWhereMicroBatchesHaveOneSample) {
  const auto found = [](const config::Train& train, int64_t ranks, int64_t samples) {
    const SingleSamples single = single_samples(batch_arithmetic(train, ranks, samples));
    return str(single.first ? "first " : "", single.full ? "full " : "", single.tail ? "tail" : "");
  };
  EXPECT_EQ(found(train(17, 1, 0), 1, 52), "tail");
  EXPECT_EQ(found(train(3, 1, 0), 1, 52), "tail");
  EXPECT_EQ(found(train(5, 1, 0), 2, 52), "") << "the tail of two is one rank's";
  EXPECT_EQ(found(train(4, 1, 0), 1, 52), "");
  EXPECT_EQ(found(train(1, 1, 0), 1, 52), "first full ") << "52 steps of one";
  EXPECT_EQ(found(train(2, 0, 3), 1, 51), "full ") << "two and one";
  EXPECT_EQ(found(train(8, 0, 2), 2, 52), "first full ");
  EXPECT_EQ(found(train(60, 1, 0), 1, 1), "first full ");
  config::Train cut_short = train(17, 1, 0);
  cut_short.max_steps = 3;
  EXPECT_EQ(found(cut_short, 1, 52), "") << "it ends before the fourth step";
}

TEST(BatchArithmetic, KnowsWhetherMicroBatchesHaveTwoSamples) {
  const auto pairs = [](const config::Train& train, int64_t ranks, int64_t samples) {
    return has_pairs(batch_arithmetic(train, ranks, samples));
  };
  EXPECT_TRUE(pairs(train(2, 1, 0), 1, 52));
  EXPECT_TRUE(pairs(train(10, 1, 0), 1, 52)) << "the tail";
  EXPECT_TRUE(pairs(train(5, 1, 0), 2, 52)) << "the tail, of one rank";
  EXPECT_FALSE(pairs(train(4, 1, 0), 1, 52));
  EXPECT_FALSE(pairs(train(1, 1, 0), 1, 52));
  config::Train cut_short = train(10, 1, 0);
  cut_short.max_steps = 3;
  EXPECT_FALSE(pairs(cut_short, 1, 52));
}

// Each size that is named is tried: the training that has it has no single sample.
TEST(BatchArithmetic, NamesTheNearestSizesWithoutASingleSample) {
  const auto flags = [](const config::Train& t, int64_t ranks, int64_t samples) {
    return flags_without_single_samples(batch_arithmetic(t, ranks, samples), t.global_batch > 0);
  };
  EXPECT_EQ(flags(train(17, 1, 0), 1, 52), "--batch-size 15, 16, 18 or 19");
  EXPECT_EQ(flags(train(3, 1, 0), 1, 52), "--batch-size 2, 4 or 5");
  EXPECT_EQ(flags(train(1, 1, 0), 1, 52), "--batch-size 2 or 4");
  EXPECT_EQ(flags(train(17, 2, 0), 1, 69), "--batch-size 15, 16, 18 or 19") << "of two micro-steps";
  EXPECT_EQ(flags(train(2, 0, 3), 1, 51), "--batch-size 3 or 4");
  EXPECT_EQ(flags(train(8, 0, 2), 2, 52), "--train.global_batch 4 or 5");
  EXPECT_EQ(flags(train(17, 0, 17), 1, 52), "--train.global_batch 15, 16, 18 or 19")
      << "the tail has one sample";
  EXPECT_EQ(flags(train(17, 1, 0), 1, 1), "");
}

TEST(Overfit, TakesAFewTrainingSamplesForBoth) {
  data::Splits all;
  all.train.resize(100);
  std::iota(all.train.begin(), all.train.end(), 1000);
  all.test = {1};
  const data::Splits few = overfit_splits(all, 8, 1), same = overfit_splits(all, 8, 1),
                     other = overfit_splits(all, 8, 2);
  EXPECT_EQ(std::set<int64_t>(few.train.begin(), few.train.end()).size(), 8u);
  for (const int64_t id : few.train) EXPECT_TRUE(id >= 1000 && id < 1100);
  EXPECT_EQ(few.val, few.train);
  EXPECT_TRUE(few.test.empty());
  EXPECT_EQ(few.train, same.train);
  EXPECT_NE(few.train, other.train);
  EXPECT_EQ(overfit_splits(all, 1000, 1).train.size(), 100u);
}

}  // namespace
}  // namespace dtrain::train

// Which of batch size, accumulate and global batch decides, and what the banner says of it.

#include "job/batch_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace dtrain::job {
namespace {

using ::testing::HasSubstr;

config::Train train(int64_t batch, int64_t accumulate, int64_t global) {
  config::Train t;
  t.batch_size = batch;
  t.accumulate = accumulate;
  t.global_batch = global;
  return t;
}

config::Loaded loaded(std::vector<std::string> given, config::Places places) {
  config::Loaded loaded;
  loaded.given = std::move(given);
  loaded.places = std::move(places);
  return loaded;
}

TEST(BatchChoice, TheProductDecidesWhereNoGlobalBatchIsGiven) {
  const BatchChoice choice = choose_batch(train(32, 2, 0), loaded({}, {}), 4, false);
  EXPECT_EQ(choice.train.accumulate, 2);
  EXPECT_EQ(choice.train.global_batch, 0);
  EXPECT_EQ(choice.decided_by, "train.batch_size × ranks × train.accumulate");
}

TEST(BatchChoice, AGlobalBatchDecidesAndNamesItsPlace) {
  const config::Places places = {
      {"train.global_batch", "configs/headpose_300wlp.yaml (embedded):27:17"}};
  const BatchChoice choice = choose_batch(train(32, 0, 128), loaded({}, places), 4, false);
  EXPECT_EQ(choice.train.global_batch, 128);
  EXPECT_EQ(choice.decided_by,
            "train.global_batch (configs/headpose_300wlp.yaml (embedded):27:17)");
  // All three numbers, which agree.
  EXPECT_EQ(
      choose_batch(train(32, 2, 200), loaded({"train.accumulate"}, {}), 4, false).train.accumulate,
      0);
}

TEST(BatchChoice, WhatTookThePlaceOfAnEmbeddedGlobalBatchIsNamed) {
  config::Loaded given =
      loaded({"train.batch_size", "train.accumulate"},
             {{"train.batch_size", "--batch-size"}, {"train.accumulate", "c.yaml:2:3"}});
  given.overruled = {128, "the embedded headpose_300wlp"};
  EXPECT_EQ(choose_batch(train(128, 2, 0), given, 4, false).decided_by,
            "--batch-size and c.yaml:2:3; train.global_batch 128 of the embedded headpose_300wlp "
            "does not count");
}

TEST(BatchChoice, AContradictionNamesThreePlaces) {
  const config::Loaded given =
      loaded({"train.batch_size", "train.accumulate", "train.global_batch"},
             {{"train.batch_size", "--batch-size"},
              {"train.accumulate", "--accumulate"},
              {"train.global_batch", "c.yaml:3:17"}});
  try {
    choose_batch(train(32, 3, 128), given, 2, false);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "train.global_batch 128 (c.yaml:3:17) on 2 ranks with train.batch_size 32 "
                 "(--batch-size) needs "
                 "train.accumulate 2, not train.accumulate 3 (--accumulate): leave "
                 "train.accumulate out, and it is "
                 "derived");
  }
  try {
    choose_batch(train(32, 3, 128), loaded({}, {{"train.accumulate", "--accumulate"}}), 1, false);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("on 1 rank with train.batch_size 32 (default) needs train.accumulate 4"));
  }
}

TEST(BatchChoice, AResumedRunKeepsItsGlobalBatchAndSaysWhichAccumulateIsUsed) {
  const config::Loaded given = loaded({"train.accumulate"}, {{"train.accumulate", "--accumulate"}});
  const BatchChoice choice = choose_batch(train(32, 4, 128), given, 2, true);
  EXPECT_EQ(choice.train.global_batch, 128);
  EXPECT_EQ(choice.train.accumulate, 0);
  EXPECT_EQ(choice.decided_by, "the checkpoint: a resumed run keeps its global batch");
  EXPECT_EQ(choice.notice,
            "train.accumulate 4 (--accumulate) does not fit the checkpoint's global batch of 128 "
            "on 2 ranks × 32: 2 is "
            "used");
  EXPECT_EQ(choose_batch(train(32, 2, 128), given, 2, true).notice, "");
}

TEST(RateAdvice, IsGivenOnlyForAnotherGlobalBatchThanTheRateIsFor) {
  config::Loaded given;
  EXPECT_EQ(rate_advice(given, 0.001, 512), "");
  given.of_rate = {128, "the embedded headpose_300wlp"};
  EXPECT_EQ(rate_advice(given, 0.001, 128), "");
  EXPECT_EQ(rate_advice(given, 0.001, 512),
            "0.001 is for the global batch of 128 of the embedded headpose_300wlp; for 512, linear "
            "scaling suggests --lr "
            "0.004");
  EXPECT_THAT(rate_advice(given, 0.0005, 64), HasSubstr("--lr 0.00025"));
}

}  // namespace
}  // namespace dtrain::job

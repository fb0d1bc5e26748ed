#include "train/memory_remedies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMiB = 1 << 20;

// A step of 32 samples on each of two ranks: 30 MiB of activations and 1 MiB of data per sample.
MemoryNeed need_of(double missing_mib) {
  MemoryNeed need{.step = {.weights = 100 * kMiB,
                           .gradients = 100 * kMiB,
                           .moments = 200 * kMiB,
                           .activations = 960 * kMiB,
                           .batch = 32 * kMiB},
                  .batches = {.global_batch = 64,
                              .batch_size = 32,
                              .accumulate = 1,
                              .ranks = 2,
                              .samples = 1000},
                  .missing = missing_mib * kMiB};
  need.activations_checkpointed = 400.0 * kMiB;
  need.activations_amp = 500.0 * kMiB;
  need.amp = "bf16";
  need.keeps_moments = true;
  return need;
}

std::vector<std::string> flags_of(const MemoryNeed& need) {
  std::vector<std::string> flags;
  for (const Remedy& remedy : memory_remedies(need)) flags.push_back(remedy.flags);
  return flags;
}

TEST(MemoryRemedies, AreComputedFromWhatAStepNeeds) {
  const std::vector<Remedy> remedies = memory_remedies(need_of(300));
  ASSERT_EQ(remedies.size(), 3u);
  EXPECT_EQ(remedies[0].flags, "--batch-size 16 --accumulate 2");
  EXPECT_EQ(remedies[0].saving, 16 * 31.0 * kMiB);
  EXPECT_EQ(remedies[1].flags, "--model.checkpointing true");
  EXPECT_EQ(remedies[1].saving, 560.0 * kMiB);
  EXPECT_EQ(remedies[2].flags, "--amp bf16");
  EXPECT_EQ(remedies[2].saving, 460.0 * kMiB);
  for (const Remedy& remedy : remedies) EXPECT_TRUE(remedy.enough) << remedy.flags;
}

TEST(MemoryRemedies, TheMicroBatchIsAsSmallAsWhatIsMissingAsksFor) {
  for (const auto& [missing, flags] : std::vector<std::pair<double, std::string>>{
           {100, "--batch-size 16 --accumulate 2"},
           {497, "--batch-size 8 --accumulate 4"},
           {800, "--batch-size 4 --accumulate 8"},
           {5000, "--batch-size 1 --accumulate 32"},
       }) {
    const std::vector<std::string> all = flags_of(need_of(missing));
    EXPECT_THAT(all, ::testing::Contains(flags)) << missing;
  }
}

TEST(MemoryRemedies, WhatIsEnoughAloneComesFirst) {
  EXPECT_THAT(flags_of(need_of(520)), ElementsAre("--batch-size 8 --accumulate 4",
                                                  "--model.checkpointing true", "--amp bf16"));
  EXPECT_FALSE(memory_remedies(need_of(520))[2].enough);
  MemoryNeed large = need_of(950);
  EXPECT_THAT(flags_of(large), ElementsAre("--batch-size 1 --accumulate 32",
                                           "--model.checkpointing true", "--amp bf16"));
  EXPECT_TRUE(memory_remedies(large)[0].enough);
  EXPECT_FALSE(memory_remedies(large)[1].enough);
}

TEST(MemoryRemedies, OfOneSampleIsNotASmallerBatch) {
  MemoryNeed need = need_of(100);
  need.batches = {.global_batch = 2, .batch_size = 1, .accumulate = 1, .ranks = 2, .samples = 1000};
  EXPECT_THAT(flags_of(need), ElementsAre("--model.checkpointing true", "--amp bf16",
                                          "--optimizer.name sgd --optimizer.momentum 0"));
}

TEST(MemoryRemedies, WhatCannotBeChangedIsNotNamed) {
  MemoryNeed need = need_of(100);
  need.activations_checkpointed = need.activations_amp = MemoryNeed::kUnknown;
  need.keeps_moments = false;
  EXPECT_THAT(flags_of(need), ElementsAre("--batch-size 16 --accumulate 2"));
  need.activations_checkpointed = 959.0 * kMiB;  // less than a percent
  EXPECT_THAT(flags_of(need), ElementsAre("--batch-size 16 --accumulate 2"));
  need.batches.batch_size = 1;
  EXPECT_TRUE(memory_remedies(need).empty());
  EXPECT_THAT(describe(need), HasSubstr("a smaller network or a larger GPU"));
}

TEST(MemoryRemedies, OnTheHostBatchesThatWaitCountToo) {
  MemoryNeed need = need_of(100);
  need.step.batch = 320 * kMiB;
  need.read_ahead = 4;
  EXPECT_EQ(need.total(), (100.0 + 100 + 200 + 960 + 320 * 5) * kMiB);
  const std::vector<Remedy> remedies = memory_remedies(need);
  EXPECT_EQ(remedies[0].saving, 16 * (30.0 + 10 * 5) * kMiB);
  EXPECT_EQ(remedies[2].flags, "--data.prefetch 1");
  EXPECT_EQ(remedies[2].saving, 3 * 320.0 * kMiB);
}

TEST(MemoryRemedies, AnAverageCanBeLeftOut) {
  MemoryNeed need = need_of(90);
  need.step.average = 100 * kMiB;
  need.keeps_average = true;
  need.activations_amp = MemoryNeed::kUnknown;
  EXPECT_THAT(flags_of(need), ElementsAre("--batch-size 16 --accumulate 2",
                                          "--model.checkpointing true", "--train.ema 0"));
}

TEST(MemoryRemedies, ASmallerBatchKeepsTheGlobalBatch) {
  MemoryNeed need = need_of(100);
  need.batches = {
      .global_batch = 100, .batch_size = 25, .accumulate = 2, .ranks = 2, .samples = 1000};
  EXPECT_EQ(flags_of(need)[0], "--batch-size 12 --accumulate 5 --train.global_batch 100");
}

TEST(MemoryRemedies, TheTextHasTheKindsAndTheSavings) {
  const std::string text = describe(need_of(520));
  EXPECT_THAT(text, HasSubstr("a step needs about 1.4 GiB for its tensors (weights 100.0 MiB, "
                              "gradients 100.0 MiB, moments "
                              "200.0 MiB, activations 960.0 MiB, batches 32.0 MiB), and 520.0 MiB "
                              "or more were missing"));
  EXPECT_THAT(text, HasSubstr("\n  --batch-size 8 --accumulate 4: -744.0 MiB; trains with the same "
                              "global batch of 64"));
  EXPECT_THAT(text, HasSubstr("\n  --amp bf16: -460.0 MiB (not enough alone); computes in bf16"));
  EXPECT_THAT(describe(need_of(0)), Not(HasSubstr("missing")));
}

}  // namespace
}  // namespace dtrain::train

// Which settings are worth a trial.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/settings.h"
#include "tune/step_batches.h"

namespace dtrain::tune {
namespace {

using config::AmpMode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

config::Loaded loaded(const std::vector<std::string>& arguments) {
  return config::load(arguments, "/nonexistent", {.other_flags = {}, .check_dataset = false});
}

// The keys that may be changed.
std::vector<std::string> free_keys(const Freedom& freedom) {
  std::vector<std::string> free;
  for (const TunedKey& key : tuned_keys()) {
    if (freedom[row_of(key.member)]) free.emplace_back(key.path);
  }
  return free;
}

TEST(Freedom, EndsAtTheFlagsOfThisCommand) {
  const config::Loaded without = loaded({"--data.file", "d.h5"});
  EXPECT_EQ(free_keys(freedom_of(without)).size(), tuned_keys().size());
  EXPECT_THAT(kept_by_flags(without), IsEmpty());
  const config::Loaded with =
      loaded({"--data.file", "d.h5", "--amp", "bf16", "--data.workers", "3"});
  EXPECT_THAT(free_keys(freedom_of(with)),
              ElementsAre("train.batch_size", "model.channels_last", "model.checkpointing",
                          "dist.wire", "data.prefetch"));
  EXPECT_THAT(kept_by_flags(with),
              ElementsAre("train.amp (--amp)", "data.workers (--data.workers)"));
  const Freedom wire = freedom_of(loaded({"--data.file", "d.h5", "--dist.wire", "fp32"}));
  EXPECT_FALSE(wire[row_of(&TunedSettings::wire)]);
}

TEST(Freedom, LeavesOutWhatDoesNothingForTheNetwork) {
  const config::Loaded pointer = loaded({"--data.file", "d.h5", "--task", "pointer"});
  const Freedom sets = freedom_of(pointer);
  EXPECT_FALSE(sets[row_of(&TunedSettings::channels_last)] ||
               sets[row_of(&TunedSettings::checkpointing)]);
  EXPECT_TRUE(sets[row_of(&TunedSettings::amp)]);
  EXPECT_THAT(kept_by_flags(pointer), IsEmpty()) << "no flag keeps them";
  const Freedom fp64 = freedom_of(loaded({"--data.file", "d.h5", "--train.amp", "fp64"}));
  EXPECT_FALSE(fp64[row_of(&TunedSettings::amp)]);
}

TEST(Precisions, AreThoseOfTheDevice) {
  EXPECT_THAT(precisions(AmpMode::kFp32, at::kCPU, 0), ElementsAre(AmpMode::kBf16, AmpMode::kFp32));
  EXPECT_THAT(precisions(AmpMode::kBf16, at::kCUDA, 86),
              ElementsAre(AmpMode::kBf16, AmpMode::kTf32, AmpMode::kFp32));
  EXPECT_THAT(precisions(AmpMode::kFp16, at::kCUDA, 75),
              ElementsAre(AmpMode::kFp16, AmpMode::kFp32));
  EXPECT_THAT(precisions(AmpMode::kFp16, at::kCUDA, 80),
              ElementsAre(AmpMode::kBf16, AmpMode::kFp16, AmpMode::kTf32, AmpMode::kFp32))
      << "what is given is compared";
}

TEST(Candidates, OfTheNetworkAreAllCombinations) {
  const Freedom free = freedom_of(loaded({"--data.file", "d.h5"}));
  const TunedSettings given{.batch_size = 8, .amp = AmpMode::kFp32, .channels_last = true};
  const auto networks = [&](const TunedSettings& from, const Freedom& freedom, bool memory_is_short,
                            int64_t checkpointed_batch) {
    return candidates_of(KeyGroup::kNetwork, from, freedom,
                         {.amps = {AmpMode::kBf16, AmpMode::kFp32},
                          .memory_is_short = memory_is_short,
                          .checkpointed_batch = checkpointed_batch});
  };
  const std::vector<TunedSettings> all = networks(given, free, true, 8);
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(all.front(), given) << "what is found so far is known to work";
  for (const TunedSettings& one : all) {
    EXPECT_EQ(one.batch_size, 8);
    EXPECT_EQ(std::ranges::count(all, one), 1);
  }
  EXPECT_EQ(networks(given, free, false, 8).size(), 4u)
      << "recomputing costs time, and saves memory that is there";
  TunedSettings recomputing = given;
  recomputing.checkpointing = true;
  EXPECT_EQ(networks(recomputing, free, false, 8).size(), 8u) << "but leaving it out is tried";
  EXPECT_THAT(networks(given, Freedom(), true, 8), ElementsAre(given));
  for (const TunedSettings& one : networks(given, free, true, /*checkpointed_batch=*/32)) {
    EXPECT_EQ(one.batch_size, one.checkpointing ? 32 : 8)
        << "recomputing pays off by the batch that it makes possible";
  }
}

TEST(Candidates, OfTheLoaderAreReadersAndBatchesAheadThatFit) {
  const Freedom free = freedom_of(loaded({"--data.file", "d.h5"}));
  const TunedSettings given{.workers = 2, .prefetch = 3};
  const std::vector<TunedSettings> all =
      candidates_of(KeyGroup::kLoader, given, free,
                    {.speeds = {{1, 500}, {2, 900}}, .needed = 400, .most_ahead = 4.5});
  std::vector<std::pair<int64_t, int64_t>> tried;
  for (const TunedSettings& one : all) tried.emplace_back(one.workers, one.prefetch);
  using P = std::pair<int64_t, int64_t>;
  EXPECT_THAT(tried, ElementsAre(P(2, 3), P(1, 3), P(1, 2), P(1, 4), P(2, 2), P(2, 4)));
}

TEST(Costs, AreChangesOfTheNetworkAndResourcesOfTheLoader) {
  const TunedSettings given{.batch_size = 8, .workers = 2, .prefetch = 4};
  TunedSettings other = given;
  EXPECT_EQ(cost_of(KeyGroup::kNetwork, other, given), 0);
  other.checkpointing = true;
  other.amp = AmpMode::kBf16;
  EXPECT_EQ(cost_of(KeyGroup::kNetwork, other, given), 2);
  EXPECT_EQ(cost_of(KeyGroup::kBatch, other, given), 8);
  EXPECT_EQ(cost_of(KeyGroup::kLoader, other, given), 2004) << "a thread is more than a batch";
}

TEST(SameNetwork, IsOneOfEqualArithmeticAndBuckets) {
  const TunedSettings given{.batch_size = 8};
  TunedSettings other = given;
  other.batch_size = 16;
  other.workers = 3;
  EXPECT_TRUE(same_network(given, other));
  other.wire = config::Wire::kBf16;
  EXPECT_FALSE(same_network(given, other)) << "its gradients have other buckets";
}

TEST(TakesLess, IsLessOfOneThingAndMoreOfNone) {
  const TunedSettings given{.batch_size = 32, .workers = 2, .prefetch = 4};
  TunedSettings other = given;
  EXPECT_FALSE(takes_less(other, given));
  other.amp = config::AmpMode::kBf16;
  EXPECT_FALSE(takes_less(other, given)) << "it is another arithmetic";
  other.workers = 1;
  EXPECT_TRUE(takes_less(other, given));
  other.batch_size = 64;
  EXPECT_FALSE(takes_less(other, given));
}

TEST(BatchCandidates, ShareTheGlobalBatchEqually) {
  EXPECT_THAT(batch_candidates(128, 128, 128), ElementsAre(128, 64, 32, 16, 8, 4, 2, 1));
  EXPECT_THAT(batch_candidates(128, 100, 32), ElementsAre(64, 32, 16, 8, 4, 2, 1))
      << "two halves of 64";
  EXPECT_THAT(batch_candidates(100, 30, 30), ElementsAre(30, 13, 7, 4, 2)) << "30 is four times 25";
  EXPECT_THAT(batch_candidates(64, 64, 48), ElementsAre(64, 48, 16, 8, 4, 2, 1))
      << "48 is twice 32";
  EXPECT_THAT(batch_candidates(1, 1, 1), ElementsAre(1));
  EXPECT_THAT(batch_candidates(4096, 4096, 64).size(), 8u);
}

TEST(BatchCandidates, ArePowersOfTwoAndTheLargestIfTheGlobalBatchIsFree) {
  EXPECT_THAT(batch_candidates(0, 1000, 32), ElementsAre(1000, 512, 256, 128, 64, 32, 16, 8));
  EXPECT_THAT(batch_candidates(0, 64, 500), ElementsAre(64, 32, 16, 8, 4, 2, 1))
      << "what is given does not fit";
  EXPECT_THAT(batch_candidates(0, 1, 1), ElementsAre(1));
}

TEST(WorkerCandidates, AreTheFewestThatKeepUp) {
  const std::vector<LoadingSpeed> speeds = {{8, 4000}, {1, 700}, {2, 1400}, {4, 2600}, {16, 4100}};
  EXPECT_THAT(worker_candidates(speeds, 500, 2), ElementsAre(1, 2, 4));
  EXPECT_THAT(worker_candidates(speeds, 1500, 1), ElementsAre(1, 2, 4, 8))
      << "2 may, and 1 is given";
  EXPECT_THAT(worker_candidates(speeds, 100'000, 4), UnorderedElementsAre(4, 8, 16))
      << "the fastest, and the given";
}

TEST(StepSecondsWith, AddMicroStepsAlone) {
  EXPECT_DOUBLE_EQ(step_seconds_with(1, 0.12, 0.1), 0.12);
  EXPECT_DOUBLE_EQ(step_seconds_with(4, 0.12, 0.1), 0.42);
  EXPECT_DOUBLE_EQ(step_seconds_with(2, 0.1, 0.2), 0.2)
      << "a micro-step is no longer than the step";
}

TEST(TunedKeys, AreReadFromAConfigurationAndPutIntoOne) {
  config::Config config;
  const TunedSettings settings{.batch_size = 3,
                               .amp = AmpMode::kBf16,
                               .channels_last = false,
                               .checkpointing = true,
                               .wire = config::Wire::kBf16,
                               .workers = 5,
                               .prefetch = 6};
  apply(settings, config);
  EXPECT_EQ(config.train.batch_size, 3);
  EXPECT_EQ(config.train.amp, AmpMode::kBf16);
  EXPECT_FALSE(config.model.channels_last);
  EXPECT_TRUE(config.model.checkpointing);
  EXPECT_EQ(config.dist.wire, config::Wire::kBf16);
  EXPECT_EQ(config.data.workers, 5);
  EXPECT_EQ(config.data.prefetch, 6);
  EXPECT_EQ(settings_of(config), settings);
  for (const TunedKey& key : tuned_keys()) {
    EXPECT_TRUE(key.differs(settings, {})) << key.path << ": a new key is set above, too";
  }
}

TEST(TunedKeys, AreTextForPeople) {
  EXPECT_EQ(text_of({.batch_size = 64, .workers = 2, .prefetch = 4}),
            "batch 64, fp32, channels_last, 2 readers, 4 ahead");
  EXPECT_EQ(text_of({.batch_size = 8,
                     .amp = AmpMode::kBf16,
                     .channels_last = false,
                     .checkpointing = true,
                     .wire = config::Wire::kBf16}),
            "batch 8, bf16, checkpointing, bf16 between ranks, 1 reader, 4 ahead");
}

}  // namespace
}  // namespace dtrain::tune

// Which settings are worth a trial.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/settings.h"

namespace dtrain::tune {
namespace {

using config::AmpMode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

config::Loaded loaded(const std::vector<std::string>& arguments) {
  return config::load(arguments, "/nonexistent", {.other_flags = {}, .check_dataset = false});
}

TEST(Freedom, EndsAtTheFlagsOfThisCommand) {
  const config::Loaded without = loaded({"--data.file", "d.h5"});
  const Freedom all = freedom_of(without);
  EXPECT_TRUE(all.batch_size && all.amp && all.channels_last && all.checkpointing && all.wire &&
              all.workers && all.prefetch);
  EXPECT_THAT(kept_by_flags(without), IsEmpty());
  const config::Loaded with =
      loaded({"--data.file", "d.h5", "--amp", "bf16", "--data.workers", "3"});
  const Freedom some = freedom_of(with);
  EXPECT_TRUE(some.batch_size && some.channels_last && some.prefetch);
  EXPECT_FALSE(some.amp || some.workers);
  EXPECT_THAT(kept_by_flags(with),
              ElementsAre("train.amp (--amp)", "data.workers (--data.workers)"));
  EXPECT_FALSE(freedom_of(loaded({"--data.file", "d.h5", "--dist.wire", "fp32"})).wire);
}

TEST(Freedom, LeavesOutWhatDoesNothingForTheNetwork) {
  const config::Loaded pointer = loaded({"--data.file", "d.h5", "--task", "pointer"});
  const Freedom sets = freedom_of(pointer);
  EXPECT_FALSE(sets.channels_last || sets.checkpointing);
  EXPECT_TRUE(sets.amp);
  EXPECT_THAT(kept_by_flags(pointer), IsEmpty()) << "no flag keeps them";
  EXPECT_FALSE(freedom_of(loaded({"--data.file", "d.h5", "--train.amp", "fp64"})).amp);
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

TEST(NetworkCandidates, BeginWithWhatIsGiven) {
  const Settings given{.batch_size = 8, .amp = AmpMode::kFp32, .channels_last = true};
  const std::vector<AmpMode> amps = {AmpMode::kBf16, AmpMode::kFp32};
  const std::vector<Settings> all =
      network_candidates(given, {}, amps, /*memory_is_short=*/true, 8);
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(all.front(), given);
  for (const Settings& one : all) {
    EXPECT_EQ(one.batch_size, 8);
    EXPECT_EQ(std::ranges::count(all, one), 1);
  }
  const std::vector<Settings> roomy = network_candidates(given, {}, amps, false, 8);
  EXPECT_EQ(roomy.size(), 4u) << "recomputing costs time, and saves memory that is there";
  Settings recomputing = given;
  recomputing.checkpointing = true;
  EXPECT_EQ(network_candidates(recomputing, {}, amps, false, 8).size(), 8u)
      << "but leaving it out is tried";
  EXPECT_THAT(
      network_candidates(given, {.amp = false, .channels_last = false, .checkpointing = false},
                         amps, true, 8),
      ElementsAre(given));
  for (const Settings& one : network_candidates(given, {}, amps, true, /*checkpointed_batch=*/32)) {
    EXPECT_EQ(one.batch_size, one.checkpointing ? 32 : 8)
        << "recomputing pays off by the batch that it makes possible";
  }
  EXPECT_EQ(differences(given, recomputing), 1);
  Settings narrow = given;
  narrow.wire = config::Wire::kBf16;
  EXPECT_EQ(differences(given, narrow), 1);
  EXPECT_FALSE(given.same_network(narrow)) << "its gradients have other buckets";
  EXPECT_EQ(differences(given, given), 0);
}

TEST(TakesLess, IsLessOfOneThingAndMoreOfNone) {
  const Settings given{.batch_size = 32, .workers = 2, .prefetch = 4};
  Settings other = given;
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

TEST(Apply, SetsEveryKey) {
  config::Config config;
  apply({.batch_size = 3,
         .amp = AmpMode::kBf16,
         .channels_last = false,
         .checkpointing = true,
         .wire = config::Wire::kBf16,
         .workers = 5,
         .prefetch = 6},
        config);
  EXPECT_EQ(config.train.batch_size, 3);
  EXPECT_EQ(config.train.amp, AmpMode::kBf16);
  EXPECT_FALSE(config.model.channels_last);
  EXPECT_TRUE(config.model.checkpointing);
  EXPECT_EQ(config.dist.wire, config::Wire::kBf16);
  EXPECT_EQ(config.data.workers, 5);
  EXPECT_EQ(config.data.prefetch, 6);
}

}  // namespace
}  // namespace dtrain::tune

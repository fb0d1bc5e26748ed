#include "train/training_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "support/expect_error.h"

namespace dtrain::train {
namespace {

TrainingState example() {
  return {.step = 123,
          .global_batch = 256,
          .ledger = 0xfedcba9876543210ULL,
          .metric = "mae",
          .watch = {.best = 0.1 + 0.2,
                    .best_step = 100,
                    .bar = 0.7,
                    .evaluations_without_improvement = 2},
          .plateau = {.best = 1.0 / 3, .evaluations_without_improvement = 4, .factor = 0.1},
          .scaler = {65536, 17, 3},
          .evaluation = {{"loss", 0.1 + 0.2}, {"accuracy", std::nan("")}, {"b", 1}},
          .evaluation_owed = true,
          .data_checksum = 0xffffffffffffffffULL,
          .splits_checksum = 0x8000000000000001ULL,
          .data_meaning = {{{"class_names", "a\nü"}, {"target_unit", "degree"}}},
          .data_modified_ns = 1'700'000'000'123'456'789,
          .config_yaml = "task: headpose\n",
          .torch_version = "2.11.0"};
}

TEST(TrainingState, SurvivesJsonBitByBit) {
  const TrainingState before = example(), after = from_json(to_json(before));
  EXPECT_EQ(after.step, 123);
  EXPECT_EQ(after.global_batch, 256);
  EXPECT_EQ(after.ledger, before.ledger);
  EXPECT_EQ(after.metric, "mae");
  EXPECT_EQ(after.watch.best, before.watch.best);
  EXPECT_EQ(after.watch.best_step, 100);
  EXPECT_EQ(after.watch.bar, 0.7);
  EXPECT_EQ(after.watch.evaluations_without_improvement, 2);
  EXPECT_EQ(after.plateau.best, before.plateau.best);
  EXPECT_EQ(after.plateau.evaluations_without_improvement, 4);
  EXPECT_EQ(after.plateau.factor, 0.1);
  EXPECT_EQ(after.scaler.scale, 65536);
  EXPECT_EQ(after.scaler.growth_tracker, 17);
  EXPECT_EQ(after.scaler.skipped, 3);
  ASSERT_EQ(after.evaluation.size(), 3u);
  EXPECT_EQ(after.evaluation[0], before.evaluation[0]) << "in the order of the task";
  EXPECT_TRUE(std::isnan(after.evaluation[1].second));
  EXPECT_TRUE(after.evaluation_owed);
  EXPECT_EQ(after.data_checksum, before.data_checksum);
  EXPECT_EQ(after.splits_checksum, before.splits_checksum);
  EXPECT_EQ(after.data_meaning, before.data_meaning);
  EXPECT_EQ(after.data_modified_ns, before.data_modified_ns);
  EXPECT_EQ(after.config_yaml, before.config_yaml);
}

TEST(TrainingState, AnOlderOneDoesNotSayWhatTheDataMean) {
  TrainingState state = example();
  state.data_meaning.reset();
  state.data_modified_ns = 0;
  const std::string text = to_json(state);
  EXPECT_EQ(text.find("meaning"), std::string::npos);
  EXPECT_EQ(from_json(text).data_meaning, std::nullopt);
  EXPECT_EQ(from_json(text).data_modified_ns, 0);
  state.data_meaning.emplace();  // a file without classes and units
  EXPECT_EQ(from_json(to_json(state)).data_meaning, state.data_meaning);
}

TEST(TrainingState, KeepsTheNaNOfARunWithoutEvaluation) {
  TrainingState state = example();
  state.watch.best = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(from_json(to_json(state)).watch.best));
}

TEST(TrainingState, OfAnOlderCheckpointHasNoEvaluation) {
  TrainingState state = example();
  state.evaluation.clear();
  const std::string text = to_json(state);
  EXPECT_EQ(text.find("\"evaluation\""), std::string::npos);
  EXPECT_TRUE(from_json(text).evaluation.empty());
}

TEST(TrainingState, ATextThatCannotBeReadIsACheckpointError) {
  const std::string good = to_json(example());
  EXPECT_THROW(from_json(""), CheckpointError);
  EXPECT_THROW(from_json("{}"), CheckpointError);
  EXPECT_THROW(from_json(good.substr(0, good.size() / 2)), CheckpointError);
  std::string other = good;
  other.replace(other.find("\"version\": 3"), 12, "\"version\": 1");
  EXPECT_THROW(from_json(other), CheckpointError);
  std::string malformed = good;
  malformed.replace(malformed.find("fedcba98"), 8, "zzzzzzzz");
  EXPECT_THROW(from_json(malformed), CheckpointError);
  testing::expect_error<CheckpointError>([] { from_json("{\"version\": 3"); },
                                         {"state.json is damaged: not valid JSON at line 1"});
  for (const auto& [from, to] : {std::pair("\"step\": 123", "\"step\": -1"),
                                 std::pair("\"step\": 123", "\"step\": 9223372036854775807"),
                                 std::pair("\"step\": 123", "\"step\": 18446744073709551615"),
                                 std::pair("\"global_batch\": 256", "\"global_batch\": -1")}) {
    std::string wrong = good;
    wrong.replace(wrong.find(from), std::string(from).size(), to);
    testing::expect_error<CheckpointError>([&] { from_json(wrong); },
                                           {"state.json has", "not a whole number from"});
  }
  testing::expect_error<CheckpointError>([] { from_json("{\"version\": 3}"); },
                                         {"there is no 'step'"});
}

}  // namespace
}  // namespace dtrain::train

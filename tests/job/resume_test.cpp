#include "job/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/print.h"
#include "core/error.h"
#include "text/strings.h"
#include "train/training_state.h"

namespace dtrain::job {
namespace {

constexpr const char* kDecay = "optimizer.decay_norms_and_biases";

// A checkpoint whose configuration has the lines of `config`, but those with `left_out`.
checkpoint::Snapshot saved(config::Config config, const std::string& left_out = "") {
  config.train.global_batch = 32;  // as in every saved run
  std::string yaml;
  for (const std::string& line : split(config::to_yaml(config), '\n')) {
    if (left_out.empty() || line.find(left_out + ":") == std::string::npos) yaml += line + "\n";
  }
  train::TrainingState state;
  state.step = 3;
  state.global_batch = config.train.global_batch;
  state.config_yaml = yaml;
  checkpoint::Snapshot snapshot;
  snapshot.state_json = train::to_json(state);
  return snapshot;
}

config::Config decaying(bool all) {
  config::Config config;
  config.optimizer.decay_norms_and_biases = all;
  return config;
}

TEST(Resume, KeepsWhatWeightDecayActsOn) {
  for (const bool all : {true, false}) {
    EXPECT_EQ(
        resolve({}, saved(decaying(all)), /*ranks=*/1).config.optimizer.decay_norms_and_biases,
        all);
    config::Loaded given{.config = decaying(!all), .source = "", .given = {kDecay}};
    try {
      resolve(given, saved(decaying(all)), /*ranks=*/1);
      ADD_FAILURE() << "changed in the middle of a run";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(str("a resumed run keeps ", kDecay)));
    }
  }
}

// Versions without the key decayed everything.
TEST(Resume, ARunThatIsOlderThanTheKeyGoesOnAsBefore) {
  const checkpoint::Snapshot older = saved({}, "decay_norms_and_biases");
  EXPECT_TRUE(resolve({}, older, /*ranks=*/1).config.optimizer.decay_norms_and_biases);
  EXPECT_FALSE(resolve({}, std::nullopt, /*ranks=*/1).config.optimizer.decay_norms_and_biases)
      << "a new run";
}

TEST(Resume, NeedsFiniteWeightsMomentsAndStatistics) {
  torch::nn::Module module;
  module.register_parameter("weight", at::ones({2}));
  module.register_buffer("running_var", at::ones({2}));
  const auto whole = [] {
    checkpoint::Snapshot snapshot;
    snapshot.model = {{"weight", at::ones({2})}, {"running_var", at::ones({2})}};
    snapshot.optimizer = {{"exp_avg.weight", at::ones({2})}};
    snapshot.ranks = {{{"local.running_var", at::ones({2})}},
                      {{"local.running_var", at::ones({2})}}};
    return snapshot;
  };
  EXPECT_NO_THROW(check_finite(whole(), "c", module));
  const auto refused = [&](checkpoint::NamedTensors checkpoint::Snapshot::*part) {
    checkpoint::Snapshot snapshot = whole();
    (snapshot.*part).back().second[1] = std::nan("");
    try {
      check_finite(snapshot, "c", module);
    } catch (const CheckpointError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(
      refused(&checkpoint::Snapshot::model),
      ::testing::HasSubstr(
          "c/model.safetensors: tensor 'running_var' has a value that is not finite (nan at [1])"));
  EXPECT_THAT(refused(&checkpoint::Snapshot::optimizer),
              ::testing::HasSubstr("c/optimizer.safetensors: tensor 'exp_avg.weight' has a value"));
  checkpoint::Snapshot of_rank = whole();
  of_rank.ranks[1].front().second[0] = std::nan("");
  try {
    check_finite(of_rank, "c", module);
    ADD_FAILURE() << "accepted";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(
                                  "c/rank_1.safetensors: tensor 'local.running_var' has a value"));
  }
}

}  // namespace
}  // namespace dtrain::job

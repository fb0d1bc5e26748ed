#include "job/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/print.h"
#include "core/error.h"
#include "core/strings.h"
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
    EXPECT_EQ(resolve({}, saved(decaying(all)), /*ranks=*/1).config.optimizer.decay_norms_and_biases, all);
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
  EXPECT_FALSE(resolve({}, std::nullopt, /*ranks=*/1).config.optimizer.decay_norms_and_biases) << "a new run";
}

}  // namespace
}  // namespace dtrain::job

#include "job/same_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>

#include "config/differences.h"
#include "dist/agree.h"
#include "dist/failure.h"
#include "dist/world.h"
#include "support/temp_dir.h"
#include "support/thread_world.h"

namespace dtrain::job {
namespace {

using ::testing::HasSubstr;

RankStart start(const config::Config& config = {}) {
  return {.node = "n", .program = 1, .keys = config::keys_in_common(config), .data = 2};
}

TEST(SameStart, DifferencesAreNamed) {
  std::vector<RankStart> ranks(2, start());
  EXPECT_EQ(other_program(ranks, 1) + other_config(ranks, 1) + other_data(ranks, 1), "");
  config::Config other;
  other.train.batch_size = 7;
  other.model.freeze = "a=b";
  other.optimizer.lr = 0.5;
  ranks[1] = {.node = "m", .program = 3, .keys = config::keys_in_common(other), .data = 4};
  EXPECT_THAT(other_program(ranks, 1), HasSubstr("0000000000000003"));
  EXPECT_EQ(
      other_config(ranks, 1),
      "model.freeze is a=b, not '', train.batch_size is 7, not 32, optimizer.lr is 0.5, not 0.001");
  EXPECT_THAT(other_data(ranks, 1), HasSubstr("0000000000000004"));
  ranks[0].program = 0;
  EXPECT_EQ(other_program(ranks, 1), "") << "unknown";
  ranks[1].keys = "x=1\n";
  EXPECT_EQ(other_config(ranks, 1), "it knows other keys");
}

TEST(SameStart, ARankMayHaveItsOwnThreadsAddressAndPath) {
  config::Config other;
  other.data.file = "/scratch/d.h5";
  other.data.workers = 3;
  other.device.threads = 2;
  other.metrics.port = 1;
  other.run.name = "x";
  EXPECT_EQ(config::keys_in_common(other), config::keys_in_common({}));
  config::Config meets_others_at_lines = other, meets_others_in_the_probe = other;
  meets_others_at_lines.run.log_every.steps = 77;
  EXPECT_NE(config::keys_in_common(meets_others_at_lines), config::keys_in_common({}));
  meets_others_in_the_probe.run.diagnose = true;
  EXPECT_NE(config::keys_in_common(meets_others_in_the_probe), config::keys_in_common({}));
}

// A resumed run has its weights from the checkpoint, and a host may no longer have the file.
TEST(SameStart, InitialWeightsCountOnlyWhereTheyAreRead) {
  const dtrain::testing::TempDir folder;
  config::Config config;
  config.model.file = (folder / "module.pt").string();
  config.model.init = (folder / "init.safetensors").string();
  std::ofstream(config.model.file) << "module";
  std::ofstream(config.model.init) << "weights";
  const std::string starts = keys_of_start(config, /*reads_init=*/true);
  const std::string resumes = keys_of_start(config, /*reads_init=*/false);
  std::filesystem::remove(config.model.init);
  EXPECT_NE(keys_of_start(config, true), starts);
  EXPECT_EQ(keys_of_start(config, false), resumes);
  std::ofstream(config.model.file) << "another module";
  EXPECT_NE(keys_of_start(config, false), resumes) << "this one is read by both";
}

TEST(SameStart, TheProgramHasAHash) {
  EXPECT_NE(program_hash(), 0u);
  EXPECT_EQ(program_hash(), program_hash());
}

// Returns the exit code on which all ranks agree; 0: no error.
int code_of(const std::function<void(dist::Communicator&)>& step) {
  std::atomic<int> sum{0}, failed{0};
  dist::run_thread_world(3, [&](dist::Communicator& host) {
    try {
      step(host);
    } catch (const dist::AgreedFailure& failure) {
      sum += failure.exit_code;
      ++failed;
    }
  });
  EXPECT_TRUE(failed == 0 || failed == 3) << "all ranks or none";
  return failed == 0 ? 0 : sum / failed;
}

TEST(SameStart, AllRanksEndWithOneCode) {
  const dist::World world{.node = "n"};
  const auto with = [&](int64_t steps_of_rank_1, bool dry_run_of_rank_1) {
    return code_of([&](dist::Communicator& host) {
      config::Config config;
      config.train.max_steps = host.rank() == 1 ? steps_of_rank_1 : 5;
      check_same_start(host, world, config, host.rank() == 1 && dry_run_of_rank_1,
                       /*reads_init=*/true);
    });
  };
  EXPECT_EQ(with(5, false), 0);
  EXPECT_EQ(with(6, false), 78);
  EXPECT_EQ(with(5, true), 78);
  const auto data = [&](uint64_t of_rank_2) {
    return code_of([&](dist::Communicator& host) {
      check_same_data(host, world, "d.h5", host.rank() == 2 ? of_rank_2 : 9);
    });
  };
  EXPECT_EQ(data(9), 0);
  EXPECT_EQ(data(8), 65);
}

}  // namespace
}  // namespace dtrain::job

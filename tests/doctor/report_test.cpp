#include "doctor/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "doctor/healthy.h"

namespace dtrain::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Launch spoiled() {
  Launch launch = testing::on_gpus();
  launch.ranks[1].gpu->power_limit = 200;
  launch.ranks[3].program_hash = "00000000000000cc";
  for (RankFacts& rank : launch.ranks) rank.machine.governor.reset();
  return launch;
}

TEST(Report, TextNamesWhatIsWrongRightAndUnknown) {
  const Launch launch = spoiled();
  const std::string text = to_text(launch, examine(launch));
  EXPECT_THAT(text, HasSubstr("4 ranks on 2 hosts: 1 fault blocks the run, 1 slows it, 0 notes\n"));
  EXPECT_THAT(text, HasSubstr("NVIDIA GeForce RTX 3090"));
  EXPECT_THAT(text, HasSubstr("\nblocks: same program, rank 3 on node1\n    cause     "));
  EXPECT_THAT(text, HasSubstr("\nslows: power cap, rank 1 on node0\n"));
  EXPECT_THAT(text, HasSubstr("    fix       sudo nvidia-smi -i 0000:61:00.0 -pl 350\n"));
  EXPECT_THAT(text, HasSubstr("\nright: same configuration, "));
  EXPECT_THAT(
      text,
      HasSubstr("not checked: governor (not visible on node0); governor (not visible on node1)"));
}

TEST(Report, NamesOfOthersAreEscaped) {
  Launch launch = testing::on_gpus();
  launch.ranks[3].node = "no\x1b[31mde";
  launch.ranks[3].program_hash = "00000000000000cc";
  launch.ranks[3].program = "/x\ny";
  const std::string text = to_text(launch, examine(launch));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("no\\x1b[31mde"));
  EXPECT_THAT(text, HasSubstr("/x\\ny"));
}

TEST(Report, JsonHasFindingsAndFacts) {
  const Launch launch = spoiled();
  const auto json = nlohmann::json::parse(to_json(launch, examine(launch)));
  EXPECT_EQ(json["kind"], "doctor");
  EXPECT_EQ(json["blocks"], true);
  ASSERT_EQ(json["findings"].size(), 2u);
  EXPECT_EQ(json["findings"][0]["check"], "same program");
  EXPECT_EQ(json["findings"][0]["severity"], "blocks");
  EXPECT_EQ(json["findings"][0]["ranks"], std::vector<int>({3}));
  EXPECT_EQ(json["findings"][1]["hosts"], std::vector<std::string>({"node0"}));
  EXPECT_EQ(json["unchecked"][0]["check"], "governor");
  EXPECT_EQ(json["ranks"].size(), 4u);
  EXPECT_EQ(json["ranks"][1]["gpu"]["power_limit"], 200);
}

TEST(Report, AThousandRanksFitOnAScreen) {
  Launch launch = testing::on_cpus();
  for (int rank = 2; rank < 1000; ++rank)
    launch.ranks.push_back(testing::healthy_rank(rank, 2, launch.config));
  const std::string text = to_text(launch, examine(launch));
  EXPECT_THAT(text, HasSubstr("1000 ranks on 500 hosts"));
  EXPECT_THAT(text, HasSubstr("and 984 more"));
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 40);
}

}  // namespace
}  // namespace dtrain::doctor

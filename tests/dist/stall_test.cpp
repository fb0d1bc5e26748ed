#include "dist/stall.h"

#include <gmock/gmock.h>

#include <vector>

namespace dtrain::dist {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kTimeout = 10, kSilence = 5;

std::string message(const std::vector<RankState>& ranks) {
  return describe_stall(ranks, kTimeout, kSilence).value_or("");
}

TEST(DescribeStall, NoAlarmWhileAnyRankMoves) {
  EXPECT_EQ(message({{0, 0, 50, "all_reduce", 3}, {1, 0.5, 9.9, "data", 3}}), "");
  EXPECT_EQ(message({{0, 0, 9, "forward", 3}, {1, 50, 60, "data", 3}}), "");  // rank 0 does not miss rank 1 yet
}

TEST(DescribeStall, ARankThatIsNotHeardOfIsTheOne) {
  EXPECT_THAT(message({{0, 0, 10.1, "all_reduce", 12}, {1, 0.5, 10.2, "all_reduce", 12}, {2, 10.2, 10.4, "data", 12}}),
              AllOf(HasSubstr("rank 2 has not been heard of for 10.2 s (last: phase data, step 12)"),
                    Not(HasSubstr("rank 0")), Not(HasSubstr("rank 1"))));
}

TEST(DescribeStall, ThoseInACollectiveAreVictims) {
  EXPECT_THAT(message({{0, 0, 12, "all_reduce", 7}, {1, 0.1, 11, "data", 7}, {2, 0.1, 12, "all_reduce", 7}}),
              AllOf(HasSubstr("rank 1 stands still for 11.0 s in phase data, step 7"), Not(HasSubstr("rank 0")),
                    Not(HasSubstr("rank 2"))));
}

TEST(DescribeStall, WhenAllAreInCollectivesTheFurthestBehindIsNamed) {
  EXPECT_THAT(message({{0, 0, 12, "all_reduce", 8}, {1, 0.1, 11, "all_reduce", 7}}),
              AllOf(HasSubstr("rank 1 (phase all_reduce, step 7)"), Not(HasSubstr("rank 0"))));
}

TEST(DescribeStall, ThoseThatHaveLeftWaitLikeOthersButAreNotNamed) {
  EXPECT_EQ(message({{0, 60, 70, "done", 9, true}}), "");
  EXPECT_EQ(message({{0, 3, 3, "done", 9, true}, {1, 0, 11, "checkpoint", 9}}),
            "");  // left just now: rank 1 may be slow
  EXPECT_THAT(message({{0, 60, 70, "done", 9, true}, {1, 0, 11, "checkpoint", 9}}),
              AllOf(HasSubstr("rank 1 stands still"), Not(HasSubstr("rank 0"))));
}

TEST(DescribeStall, AFewOfManyAreNamed) {
  std::vector<RankState> ranks;
  for (int rank = 0; rank < 20; ++rank) ranks.push_back({rank, 0, 11, "data", 1});
  EXPECT_THAT(message(ranks), AllOf(HasSubstr("rank 7 "), Not(HasSubstr("rank 8 ")), HasSubstr("and 12 more")));
}

TEST(DescribeStall, ARankAloneIsNamedToo) {
  EXPECT_THAT(message({{0, 0, 11, "eval", 4}}), HasSubstr("rank 0 stands still"));
}

}  // namespace
}  // namespace dtrain::dist

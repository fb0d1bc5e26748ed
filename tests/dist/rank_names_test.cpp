#include "dist/rank_names.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "dist/handshake.h"

namespace dtrain::dist {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kOneHost = {"vm", "vm", "vm"},
                               kHosts = {"a", "a", "b", "b", "c", "c"};

TEST(RankNames, RanksAreNamedWithTheirHostIfThereAreSeveral) {
  EXPECT_EQ(rank_numbers({3}), "rank 3");
  EXPECT_EQ(ranks_on({0, 1, 2}, kOneHost), "ranks 0-2");
  EXPECT_EQ(ranks_on({2, 3}, kHosts), "ranks 2-3 on b");
  EXPECT_FALSE(several_hosts({}));
  EXPECT_FALSE(several_hosts(kOneHost));
  EXPECT_TRUE(several_hosts(kHosts));
}

TEST(DescribeGaps, RanksOfTheSameHostsAreOnePair) {
  const std::vector<Gap> gaps = {{2, 4}, {3, 4}, {4, 2}, {5, 2}};
  EXPECT_EQ(describe_gaps(gaps, kHosts),
            "b and c do not reach each other. A firewall or a broken link is between them: "
            "`launch/ssh/check b c` "
            "tries their ports");
}

TEST(DescribeGaps, TheDirectionIsNamedWhereItIsKnown) {
  // c hears nothing of b either, because b's connections wait for answers; but what b
  // repeats arrives.
  EXPECT_THAT(describe_gaps(std::vector<Gap>{{2, 4, false}, {5, 2, true}}, kHosts),
              HasSubstr("what b sends arrives at c, but nothing arrives from c to b"));
  EXPECT_THAT(describe_gaps(std::vector<Gap>{{2, 4, true}, {5, 2, false}}, kHosts),
              HasSubstr("what c sends arrives at b, but nothing arrives from b to c"));
}

TEST(DescribeGaps, HostsOfOneNameAreToldApartByRanks) {
  EXPECT_THAT(
      describe_gaps(std::vector<Gap>{{0, 1}}, std::vector<std::string>{"localhost", "localhost"}),
      AllOf(HasSubstr("rank 0 on localhost and rank 1 on localhost do not reach each other"),
            HasSubstr("`launch/ssh/check HOST HOST`")));
}

TEST(DescribeGaps, ManyPairsAreCounted) {
  std::vector<std::string> nodes;
  std::vector<Gap> gaps;
  for (int rank = 0; rank < 9; ++rank) {
    nodes.push_back(std::string(1, static_cast<char>('a' + rank)));
    if (rank > 0) gaps.push_back({0, rank});
  }
  EXPECT_THAT(describe_gaps(gaps, nodes),
              AllOf(HasSubstr("a and e do not"), Not(HasSubstr("a and f do not")),
                    HasSubstr("and 4 more pairs")));
}

TEST(DescribeUnreached, NamesRanksAndHosts) {
  const std::vector<std::pair<int, int>> missing = {{2, 4}, {2, 5}, {3, 4}, {3, 5}, {4, 2}};
  EXPECT_EQ(describe_unreached(missing, kHosts, 60),
            "after 60 s of start-up, ranks 2-5 are not all connected to each other: b and c do not "
            "reach each other. A "
            "firewall or a broken link is between them: `launch/ssh/check b c` tries their ports");
}

// With two hosts, or a rank that is stopped, no rank can say where the others are.
TEST(DescribeUnreached, RanksThatNoRankHasHeardOfAreOnlyNumbers) {
  const std::vector<std::pair<int, int>> missing = {{0, 2}, {0, 3}, {1, 2}, {1, 3}};
  EXPECT_THAT(
      describe_unreached(missing, std::vector<std::string>{"a", "a", "", ""}, 60),
      AllOf(HasSubstr(
                "ranks 2-3 have not reached ranks 0-1 on a: their processes are stopped or dead"),
            HasSubstr("firewall")));
  EXPECT_THAT(describe_unreached(std::vector<std::pair<int, int>>{{0, 1}},
                                 std::vector<std::string>{"a", ""}, 60),
              HasSubstr("rank 1 has not reached rank 0 on a: its process is stopped or dead"));
}

}  // namespace
}  // namespace dtrain::dist

#include "dist/stall_detector.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_clock.h"

namespace dtrain::dist {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kTimeout = 10, kSilence = 5, kSettled = 7;

std::optional<PeerError> stall(const std::vector<RankState>& ranks,
                               std::vector<std::string> nodes = {}) {
  nodes.resize(ranks.size(), nodes.empty() ? "vm" : nodes.back());
  return describe_stall(ranks, nodes, kTimeout, kSilence, kSettled);
}

std::string text_of(const std::optional<PeerError>& error) { return error ? error->what() : ""; }

std::string message(const std::vector<RankState>& ranks, std::vector<std::string> nodes = {}) {
  return text_of(stall(ranks, std::move(nodes)));
}

TEST(DescribeStall, ThePeerIsTheFirstRankThatIsSilentOrStuck) {
  EXPECT_EQ(stall({{0, 0, 11, "all_reduce", 3}, {1, 9, 11, "data", 3}, {2, 9, 11, "data", 3}})
                .value()
                .peer(),
            1);
  EXPECT_EQ(stall({{0, 0, 11, "backward", 9}, {1, 0, 11, "data", 7}}).value().peer(), 1);
  EXPECT_EQ(stall({{0, 0, 11, "all_reduce", 3}, {1, 0, 11, "all_reduce", 3}}).value().peer(),
            std::nullopt)
      << "ranks that all wait";
  EXPECT_EQ(stall({{0, 0, 10.1, "all_reduce", 12, false, {{0, 2, false}}},
                   {1, 0.5, 10.2, "all_reduce", 12},
                   {2, 8, 10.3, "all_reduce", 12}},
                  {"a", "b", "c"})
                .value()
                .peer(),
            std::nullopt)
      << "hosts that do not reach each other";
}

TEST(DescribeStall, NoAlarmWhileAnyRankMakesProgress) {
  EXPECT_EQ(message({{0, 0, 50, "all_reduce", 3}, {1, 0.5, 9.9, "data", 3}}), "");
  EXPECT_EQ(message({{0, 0, 9, "forward", 3}, {1, 50, 60, "data", 3}}), "");
}

TEST(DescribeStall, ASilentRankIsTheCause) {
  EXPECT_THAT(
      message({{0, 0, 10.1, "all_reduce", 12},
               {1, 0.5, 10.2, "all_reduce", 12},
               {2, 10.2, 10.4, "data", 12}}),
      AllOf(HasSubstr("rank 2 has sent no heartbeat for 10.2 s (last: phase data, step 12)"),
            Not(HasSubstr("rank 0")), Not(HasSubstr("rank 1"))));
}

TEST(DescribeStall, RanksInACollectiveAreNotTheCause) {
  EXPECT_THAT(
      message(
          {{0, 0, 12, "all_reduce", 7}, {1, 0.1, 11, "data", 7}, {2, 0.1, 12, "all_reduce", 7}}),
      AllOf(HasSubstr("rank 1 has made no progress for 11.0 s in phase data, step 7"),
            Not(HasSubstr("rank 0")), Not(HasSubstr("rank 2"))));
}

// On a GPU the host runs ahead and blocks in any phase behind the rank that is stuck.
TEST(DescribeStall, OfRanksStuckInSeveralStepsTheEarliestIsNamed) {
  EXPECT_THAT(
      message(
          {{0, 0, 12, "backward", 9}, {1, 0.1, 11, "data_wait", 7}, {2, 0.1, 12, "all_reduce", 7}}),
      AllOf(HasSubstr("rank 1 has made no progress for 11.0 s in phase data_wait, step 7"),
            Not(HasSubstr("rank 0")), Not(HasSubstr("rank 2"))));
}

TEST(DescribeStall, WhenAllAreInCollectivesTheFurthestBehindIsNamed) {
  EXPECT_THAT(message({{0, 0, 12, "all_reduce", 8}, {1, 0.1, 11, "all_reduce", 7}}),
              AllOf(HasSubstr("rank 1 (phase all_reduce, step 7)"), Not(HasSubstr("rank 0"))));
}

TEST(DescribeStall, RanksThatLeaveCountAsWaitingAndAreNotNamed) {
  EXPECT_EQ(message({{0, 60, 70, "done", 9, true}}), "");
  // Rank 0 has just left: rank 1 may be slow.
  EXPECT_EQ(message({{0, 3, 3, "done", 9, true}, {1, 0, 11, "checkpoint", 9}}), "");
  EXPECT_THAT(message({{0, 60, 70, "done", 9, true}, {1, 0, 11, "checkpoint", 9}}),
              AllOf(HasSubstr("rank 1 has made no progress"), Not(HasSubstr("rank 0"))));
}

TEST(DescribeStall, AtMostEightRanksAreNamed) {
  std::vector<RankState> ranks;
  for (int rank = 0; rank < 20; ++rank) ranks.push_back({rank, 0, 11, "data", 1});
  EXPECT_THAT(message(ranks),
              AllOf(HasSubstr("rank 7 "), Not(HasSubstr("rank 8 ")), HasSubstr("and 12 more")));
}

TEST(DescribeStall, SilentRanksOfAHostAreNamedTogetherWithIt) {
  EXPECT_EQ(message({{0, 0, 10.1, "all_reduce", 12},
                     {1, 0.5, 10.2, "all_reduce", 12},
                     {2, 10.2, 10.4, "all_reduce", 12},
                     {3, 10.1, 10.4, "all_reduce", 12}},
                    {"a", "a", "b", "b"}),
            "ranks 2-3 on b have sent no heartbeat for 10.1 s (last: phase all_reduce, step 12). "
            "The host is down or "
            "unreachable (`ssh b true` tells), its processes are stopped, or it is swapping");
}

TEST(DescribeStall, HostsThatOthersReachButNotEachOtherAreNamed) {
  const std::vector<std::string> nodes = {"a", "b", "c"};
  const auto ranks = [](bool arrives_at_c) -> std::vector<RankState> {
    return {{0, 0, 10.1, "all_reduce", 12},
            {1, 0.5, 10.2, "all_reduce", 12, false, {{1, 2, false}}},
            {2, 0.5, 10.4, "all_reduce", 12, false, {{2, 1, arrives_at_c}}}};
  };
  EXPECT_EQ(message(ranks(false), nodes),
            "no rank has made progress for 10.0 s: b and c do not reach each other. A firewall or "
            "a broken link is "
            "between them: `launch/ssh/check b c` tries their ports");
  EXPECT_THAT(message(ranks(true), nodes),
              HasSubstr("what b sends arrives at c, but nothing arrives from c to b. A firewall"));
}

TEST(DescribeStall, AHostThatIsAliveIsNotSaidToBeDown) {
  // Rank 0 itself does not hear rank 2, but rank 1 does.
  EXPECT_THAT(message({{0, 0, 10.1, "all_reduce", 12, false, {{0, 2, false}}},
                       {1, 0.5, 10.2, "all_reduce", 12},
                       {2, 10.2, 10.4, "all_reduce", 12}},
                      {"a", "b", "c"}),
              AllOf(HasSubstr("a and c do not reach each other"), Not(HasSubstr("heartbeat"))));
  // A host that no other hears is down.
  EXPECT_THAT(message({{0, 0, 10.1, "all_reduce", 12, false, {{0, 2, false}}},
                       {1, 0.5, 10.2, "all_reduce", 12, false, {{1, 2, false}}},
                       {2, 10.2, 10.4, "all_reduce", 12}},
                      {"a", "b", "c"}),
              HasSubstr("rank 2 on c has sent no heartbeat"));
  // Nor one that rank 1 has had no time to miss, nor one of more than rank 1 could list.
  EXPECT_THAT(message({{0, 0, 10.1, "all_reduce", 12, false, {{0, 2, false}}},
                       {1, 0.5, 10.2, "all_reduce", 12},
                       {2, 6, 10.4, "all_reduce", 12}},
                      {"a", "b", "c"}),
              HasSubstr("rank 2 on c has sent no heartbeat"));
  EXPECT_THAT(message({{0, 0, 10.1, "all_reduce", 12, false, {{0, 2, false}}},
                       {1, 0.5, 10.2, "all_reduce", 12, false, {}, true},
                       {2, 10.2, 10.4, "all_reduce", 12}},
                      {"a", "b", "c"}),
              HasSubstr("rank 2 on c has sent no heartbeat"));
}

TEST(DescribeStall, ASingleRankIsNamedToo) {
  EXPECT_THAT(message({{0, 0, 11, "eval", 4}}), HasSubstr("rank 0 has made no progress"));
}

// Some ranks that send each other heartbeats every second, as the watchdog does, on one clock that
// the test moves.
class Ranks {
 public:
  explicit Ranks(int count) {
    for (int rank = 0; rank < count; ++rank)
      members_.push_back({StallDetector(rank, names(count), kTimeout, kPeriod, clock_)});
  }
  // Each on a host of its own.
  static std::vector<std::string> names(int count) {
    std::vector<std::string> nodes;
    for (int rank = 0; rank < count; ++rank)
      nodes.push_back(std::string("host") + std::to_string(rank));
    return nodes;
  }
  void cut(int a, int b) { cut_ = {a, b}; }

  struct Member {
    StallDetector detector;
    uint64_t progress = 0;
    const char* phase = "data";
    int64_t step = 1;
    bool moves = true, alive = true;
  };
  Member& operator[](int rank) { return members_[static_cast<size_t>(rank)]; }

  // Runs `seconds`; the first message of each rank, by rank.
  std::vector<std::string> run(int seconds) {
    std::vector<std::string> messages(members_.size());
    for (int second = 0; second < seconds; ++second) {
      clock_.advance(std::chrono::seconds(1));
      for (Member& member : members_) {
        if (!member.alive) continue;
        if (member.moves) ++member.progress;
        member.detector.update(member.progress, member.phase, member.step);
        member.detector.note_unheard([](int, double) { return false; });
      }
      for (size_t from = 0; from < members_.size(); ++from) {
        if (!members_[from].alive) continue;
        for (size_t to = 0; to < members_.size(); ++to) {
          const std::pair<int, int> link =
              std::minmax(static_cast<int>(from), static_cast<int>(to));
          if (to == from || link == cut_) continue;
          members_[to].detector.receive(static_cast<int>(from), members_[from].detector.own());
        }
      }
      for (size_t rank = 0; rank < members_.size(); ++rank) {
        if (!members_[rank].alive || !messages[rank].empty()) continue;
        messages[rank] = text_of(members_[rank].detector.judge());
      }
    }
    return messages;
  }

  void suspend(int seconds) { clock_.advance(std::chrono::seconds(seconds)); }

 private:
  static constexpr double kPeriod = 1;
  testing::FakeClock clock_;
  std::vector<Member> members_;
  std::pair<int, int> cut_ = {-1, -1};
};

TEST(StallDetector, NoAlarmWhileOneOfTheRanksMakesProgress) {
  Ranks ranks(3);
  ranks[0].moves = ranks[1].moves = false;
  EXPECT_THAT(ranks.run(1000), Each(""));
}

TEST(StallDetector, TheLowestRankReportsAStuckOneAfterTheTimeout) {
  Ranks ranks(3);
  ranks.run(100);
  for (int rank = 0; rank < 3; ++rank) {
    ranks[rank].moves = false;
    ranks[rank].phase = rank == 1 ? "data" : "all_reduce";
    ranks[rank].step = 12;
  }
  EXPECT_THAT(ranks.run(9), Each("")) << "before the timeout";
  EXPECT_THAT(
      ranks.run(3),
      ElementsAre(
          HasSubstr("rank 1 on host1 has made no progress for 10.0 s in phase data, step 12"), "",
          ""));
  EXPECT_THAT(ranks.run(3), Each(HasSubstr("rank 1 ")))
      << "the others report it if rank 0 does not end the job";
}

TEST(StallDetector, ASilentRankIsNamedByTheLowestRankThatIsAlive) {
  Ranks ranks(3);
  ranks.run(10);
  ranks[0].alive = false;
  ranks[1].moves = ranks[2].moves = false;
  ranks[1].phase = ranks[2].phase = "all_reduce";
  EXPECT_THAT(
      ranks.run(11),
      ElementsAre(
          "", HasSubstr("rank 0 on host0 has sent no heartbeat for 10.0 s (last: phase data"), ""));
}

TEST(StallDetector, AJobThatWasSuspendedRaisesNoAlarm) {
  Ranks ranks(2);
  ranks.run(5);
  // No thread has run yet when the watchdogs look at the clock
  ranks[0].moves = ranks[1].moves = false;
  ranks.suspend(100'000);
  EXPECT_THAT(ranks.run(5), Each(""));
  EXPECT_THAT(ranks.run(10), Contains(HasSubstr("has made no progress")))
      << "it stands still for the timeout after that";
}

TEST(StallDetector, ARankThatLeavesWaitsForTheOthers) {
  Ranks ranks(2);
  ranks[0].detector.leave();
  ranks[0].moves = false;
  ranks.run(1);
  EXPECT_FALSE(ranks[0].detector.all_left());
  ranks[0].alive = false;  // it stops sending heartbeats
  EXPECT_THAT(ranks.run(1000), Each("")) << "rank 1 still makes progress";
  ranks[1].moves = false;
  ranks[1].phase = "checkpoint";
  EXPECT_THAT(ranks.run(11)[1],
              HasSubstr("rank 1 on host1 has made no progress for 10.0 s in phase checkpoint"));
  ranks[1].detector.leave();
  EXPECT_TRUE(ranks[1].detector.all_left());
}

TEST(StallDetector, ARankThatHearsBothNamesTwoHostsThatDoNotReachEachOther) {
  Ranks ranks(4);
  ranks.run(10);
  ranks.cut(2, 3);
  for (int rank = 0; rank < 4; ++rank) {
    ranks[rank].moves = false;
    ranks[rank].phase = "all_reduce";
  }
  EXPECT_THAT(ranks.run(11),
              ElementsAre(HasSubstr("host2 and host3 do not reach each other"), "", "", ""));
}

}  // namespace
}  // namespace dtrain::dist

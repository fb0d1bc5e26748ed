#include "supervisor/stop_request.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

#include "support/fake_clock.h"

namespace dtrain::supervisor {
namespace {

using dtrain::testing::FakeClock;
using Due = StopRequest::Due;
using std::chrono::milliseconds;

// What is due in `seconds`, asked ten times a second, without the nothing between.
std::vector<Due> due_in(StopRequest& request, const FakeClock& clock, double seconds) {
  std::vector<Due> all;
  for (int i = 0; i < static_cast<int>(seconds * 10); ++i) {
    if (const Due due = request.due(); due != Due::kNothing) all.push_back(due);
    clock.advance(milliseconds(100));
  }
  return all;
}

TEST(StopRequest, NothingIsDueUntilItIsAsked) {
  const FakeClock clock;
  StopRequest request(30, clock);
  EXPECT_TRUE(due_in(request, clock, 100).empty());
  EXPECT_FALSE(request.asked());
}

TEST(StopRequest, AsksAgainEachSecondAndBecomesHarderAfterTheGrace) {
  const FakeClock clock;
  StopRequest request(3, clock);
  request.ask(SIGTERM);
  EXPECT_TRUE(request.asked());
  EXPECT_EQ(due_in(request, clock, 2.9), (std::vector<Due>{Due::kSave, Due::kSave, Due::kSave}));
  EXPECT_EQ(due_in(request, clock, 2), (std::vector<Due>{Due::kEnd}));
  EXPECT_FALSE(request.in_hurry());
  const std::vector<Due> last = due_in(request, clock, 5);
  ASSERT_FALSE(last.empty());
  EXPECT_EQ(last.front(), Due::kKill);
}

TEST(StopRequest, ASecondCtrlCDoesNotWait) {
  const FakeClock clock;
  StopRequest request(30, clock);
  request.ask(SIGINT);
  EXPECT_EQ(request.due(), Due::kSave);
  clock.advance(milliseconds(200));
  request.ask(SIGINT);
  EXPECT_EQ(request.due(), Due::kEnd);
  EXPECT_TRUE(request.in_hurry());
}

TEST(StopRequest, ASecondRequestOfTheSystemIsTheSame) {
  const FakeClock clock;
  StopRequest request(30, clock);
  request.ask(SIGTERM);
  request.ask(SIGUSR1);
  request.ask(SIGTERM);
  EXPECT_EQ(due_in(request, clock, 0.9), (std::vector<Due>{Due::kSave}));
}

TEST(StopRequest, ACtrlCAfterARequestOfTheSystemIsTheFirstOne) {
  const FakeClock clock;
  StopRequest request(30, clock);
  request.ask(SIGTERM);
  request.ask(SIGINT);
  EXPECT_EQ(request.due(), Due::kSave);
  EXPECT_FALSE(request.in_hurry());
}

TEST(StopRequest, WithoutGraceTheJobIsEndedAtOnce) {
  const FakeClock clock;
  StopRequest request(0, clock);
  request.ask(SIGTERM);
  EXPECT_EQ(request.due(), Due::kEnd);
}

}  // namespace
}  // namespace dtrain::supervisor

#include "supervisor/job_end.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace dtrain::supervisor {
namespace {

TEST(CauseOfTheEnd, IsTheExitCodeAndWhatTheSupervisorDid) {
  EXPECT_EQ(cause_of({.code = 0}), EndCause::kFinished);
  EXPECT_EQ(cause_of({.code = 0, .stop_sent = true}), EndCause::kFinished)
      << "it was at its end anyway";
  EXPECT_EQ(cause_of({.code = 75}), EndCause::kPreempted);
  EXPECT_EQ(cause_of({.code = 75, .stop_sent = true}), EndCause::kStopped);
  EXPECT_EQ(cause_of({.code = 138, .stop_sent = true}), EndCause::kStopped) << "before main()";
  EXPECT_EQ(cause_of({.code = 138}), EndCause::kCrash);
  EXPECT_EQ(cause_of({.code = 76}), EndCause::kComm);
  EXPECT_EQ(cause_of({.code = 137}), EndCause::kCrash);
  EXPECT_EQ(cause_of({.code = 139, .stop_sent = true}), EndCause::kCrash);
  EXPECT_EQ(cause_of({.code = 1}), EndCause::kCrash)
      << "mpirun lost a daemon, or a rank left silently";
  EXPECT_EQ(cause_of({.code = 1, .refused = true}), EndCause::kError);
  EXPECT_EQ(cause_of({.code = 127}), EndCause::kCrash)
      << "a host may not have mounted its file systems yet";
  EXPECT_EQ(cause_of({.code = 1, .stop_sent = true, .saved = true}), EndCause::kStopped)
      << "it was ended after its save";
  EXPECT_EQ(cause_of({.code = 1, .stop_sent = true}), EndCause::kCrash);
  EXPECT_EQ(cause_of({.code = 143, .host_lost = true}), EndCause::kHostLost);
  EXPECT_EQ(cause_of({.code = 76, .host_lost = true}), EndCause::kHostLost);
}

TEST(CauseOfTheEnd, EachErrorOfDtrainButThatOfRanksWouldComeAgain) {
  const int codes[] = {UsageError("").exit_code(),  DataError("").exit_code(),
                       DeviceError("").exit_code(), Error("").exit_code(),
                       OutputError("").exit_code(), CheckpointError("").exit_code(),
                       ConfigError("").exit_code(), NumericsError("").exit_code()};
  for (const int code : codes) {
    EXPECT_EQ(cause_of({.code = code}), EndCause::kError) << code;
    EXPECT_EQ(exit_code_of({.code = code}), code);
    RestartPolicy policy({}, -1);
    EXPECT_FALSE(policy.decide(cause_of({.code = code}), 100).restart) << code;
  }
}

TEST(ExitCodeOfTheLaunch, Is75AfterARequestThatTheRanksFollowed) {
  EXPECT_EQ(exit_code_of({.code = 75, .stop_sent = true}), 75);
  EXPECT_EQ(exit_code_of({.code = 138, .stop_sent = true}), 75);
  EXPECT_EQ(exit_code_of({.code = 137, .stop_sent = true}), 137) << "it did not save";
  EXPECT_EQ(exit_code_of({.code = 0}), 0);
  EXPECT_EQ(exit_code_of({.code = 205, .host_lost = true}), 76) << "the code of mpirun says less";
}

TEST(RestartPolicy, EndsAfterTheMostRestarts) {
  RestartPolicy policy({.most = 4}, -1);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(policy.decide(EndCause::kCrash, 10 * i).restart) << i;
  const auto end = policy.decide(EndCause::kCrash, 100);
  EXPECT_FALSE(end.restart);
  EXPECT_NE(end.reason.find("--max-restarts"), std::string::npos) << end.reason;
  EXPECT_EQ(policy.restarts(), 4);
}

TEST(RestartPolicy, EndsAfterThreeRestartsWithoutANewCheckpoint) {
  RestartPolicy policy({.most = 100}, 20);  // it was resumed from step 20
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(policy.decide(EndCause::kComm, 20).restart) << i;
  EXPECT_FALSE(policy.decide(EndCause::kComm, 20).restart);
  RestartPolicy fresh({.most = 100}, -1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(fresh.decide(EndCause::kCrash, -1).restart) << i;
  const auto end = fresh.decide(EndCause::kCrash, -1);
  EXPECT_FALSE(end.restart);
  EXPECT_NE(end.reason.find("4 times"), std::string::npos) << end.reason;
}

TEST(RestartPolicy, ANewCheckpointBeginsTheCountAndTheWaitAgain) {
  RestartPolicy policy({.most = 100}, -1);
  EXPECT_EQ(policy.decide(EndCause::kCrash, -1).wait, 1);
  EXPECT_EQ(policy.decide(EndCause::kCrash, -1).wait, 2);
  EXPECT_EQ(policy.decide(EndCause::kCrash, -1).wait, 4);
  for (int64_t step = 1; step < 20; ++step)
    EXPECT_EQ(policy.decide(EndCause::kCrash, step).wait, 1) << step;
  EXPECT_EQ(policy.decide(EndCause::kCrash, 15).wait, 2) << "those after step 15 were damaged";
  EXPECT_EQ(policy.decide(EndCause::kCrash, 19).wait, 1) << "that of step 19 was written again";
}

TEST(RestartPolicy, WaitsNoLongerThanTheLongest) {
  RestartPolicy policy({.most = 100, .most_in_place = 50}, -1);
  double last = 0;
  for (int i = 0; i < 50; ++i) last = policy.decide(EndCause::kCrash, -1).wait;
  EXPECT_EQ(last, 30);
}

TEST(RestartPolicy, AFinishedOrStoppedRunIsNotStartedAgain) {
  RestartPolicy policy({}, -1);
  EXPECT_FALSE(policy.decide(EndCause::kFinished, 5).restart);
  EXPECT_FALSE(policy.decide(EndCause::kStopped, 5).restart);
  EXPECT_TRUE(policy.decide(EndCause::kPreempted, 5).restart);
  EXPECT_TRUE(policy.decide(EndCause::kHostLost, 5).restart);
}

}  // namespace
}  // namespace dtrain::supervisor

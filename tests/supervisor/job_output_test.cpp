#include "supervisor/job_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Printed {
  std::string out, error;
  JobOutput output{
      [this](std::string_view text, bool is_error) { (is_error ? error : out) += text; }};
};

TEST(TaggedLine, HasTheRankAndTheStream) {
  const TaggedLine line = parse_tagged("[1,12]<stderr>:[rank 12] error: no such file");
  EXPECT_EQ(line.rank, 12);
  EXPECT_TRUE(line.is_error);
  EXPECT_EQ(line.text, "[rank 12] error: no such file");
  EXPECT_FALSE(parse_tagged("[1,0]<stdout>:step 1").is_error);
  EXPECT_EQ(parse_tagged("[1,0]<stdout>:").text, "");
}

TEST(TaggedLine, AnythingElseIsMpirunsOwn) {
  for (const char* text :
       {"", "[", "[1,", "[1,2]", "[1,2]<stdlog>:x", "[x,2]<stderr>:y", "[1,-2]<stderr>:y",
        "mpirun noticed that process rank 1", "[node:123] a message of a daemon"}) {
    EXPECT_EQ(parse_tagged(text).rank, kNoRank) << text;
    EXPECT_EQ(parse_tagged(text).text, text);
  }
}

TEST(JobOutput, PrintsWhatPeopleWouldSeeWithoutASupervisor) {
  Printed printed;
  printed.output.add("[1,0]<stdout>:a\n[1,1]<std", false);
  printed.output.add("out>:b\n[1,0]<stdout>:no newline", false);
  printed.output.add("[1,0]<stderr>:an error\n", true);
  EXPECT_EQ(printed.out, "a\nb\n");
  printed.output.finish();
  EXPECT_EQ(printed.out, "a\nb\nno newline\n");
  EXPECT_EQ(printed.error, "an error\n");
}

TEST(JobOutput,
     TagsInsideOfLinesAreRemoved) {  // mpirun puts one before each 4096 bytes that it reads
  Printed printed;
  printed.output.add(
      "[1,1]<stdout>:one li[1,1]<stdout>:ne\n[1,0]<stdout>:half "
      "[1,1]<stdout>:another\n[1,0]<stdout>:a line\n",
      false);
  EXPECT_EQ(printed.out, "one line\nanother\nhalf a line\n");
  EXPECT_THAT(printed.output.last_lines(0), ElementsAre("half a line"));
  EXPECT_THAT(printed.output.last_lines(1), ElementsAre("one line", "another"));
}

TEST(JobOutput, AProgressBarIsPrintedAsItComes) {
  Printed printed;
  printed.output.add("[1,0]<stderr>:\r\x1b[K10 %[1,0]<stderr>:\r\x1b[K20 %", true);
  EXPECT_EQ(printed.error, "\r\x1b[K10 %\r");
  printed.output.add("[1,0]<stderr>:\r\x1b[Kerror: no such file\n", true);
  EXPECT_EQ(printed.error, "\r\x1b[K10 %\r\x1b[K20 %\r\x1b[Kerror: no such file\n");
  EXPECT_EQ(printed.output.failed_rank(), 0);
}

TEST(JobOutput, ThatMpirunForwardsASignalIsNoNews) {
  Printed printed;
  printed.output.add("mpirun: Forwarding signal 10 to job\n", true);
  EXPECT_EQ(printed.error, "");
  EXPECT_EQ(printed.output.cause(), "");
}

TEST(JobOutput, ALineThatNeverEndsIsPrintedInParts) {
  Printed printed;
  for (int i = 0; i < 100; ++i) printed.output.add(std::string(1000, 'x'), false);
  EXPECT_GT(printed.out.size(), 50000u);
}

TEST(JobOutput, NamesTheRankThatPrintedTheFirstError) {
  Printed printed;
  printed.output.add("[1,3]<stderr>:[rank 3] error: data.h5#5: the checksum does not match\n",
                     true);
  printed.output.add("[1,0]<stderr>:error: rank 3 is gone\n", true);
  printed.output.finish();
  EXPECT_EQ(printed.output.failed_rank(), 3);
  EXPECT_EQ(printed.output.cause(), "[rank 3] error: data.h5#5: the checksum does not match");
}

TEST(JobOutput, ARankThatASignalEndedIsTheCauseOfWhatTheOthersSay) {
  Printed printed;
  printed.output.add("[1,2]<stderr>:working\n[1,0]<stderr>:error: rank 2 has died\n", true);
  printed.output.add(
      "--------------------------------------------------------------------------\n"
      "mpirun noticed that process rank 2 with PID 0 on node host1 exited on signal 9 (Killed).\n",
      true);
  printed.output.finish();
  EXPECT_EQ(printed.output.failed_rank(), 2);
  EXPECT_EQ(printed.output.cause(), "rank 2 on host1: ended by signal 9 (Killed)");
  EXPECT_THAT(printed.output.last_lines(2), ElementsAre("working"));
}

TEST(JobOutput, ARankThatAnotherOneMissesIsTheOneThatFailed) {
  Printed printed;
  printed.output.add(
      "[1,1]<stdout>:epoch 1\n[1,0]<stderr>:[rank 0] error: the shared_memory communicator can no "
      "longer be used: rank "
      "1 "
      "(process 27873) has died\n",
      true);
  EXPECT_EQ(printed.output.failed_rank(), 1);
  EXPECT_THAT(printed.output.cause(), HasSubstr("rank 1 (process 27873) has died"));
  EXPECT_THAT(printed.output.last_lines(1), ElementsAre("epoch 1"));
}

TEST(JobOutput, WhatAStoppedRankSaysWhenTheJobEndsIsNotWhyItFailed) {
  for (const std::string text :
       {"the shared_memory communicator can no longer be used: rank 0 (process 11) has died",
        "receiving from rank 0 failed: MPI_ERR_OTHER: known error not in list",
        "the communicator of the gradients says: a collective failed: unhandled system error "
        "(...). NCCL_DEBUG=WARN prints "
        "more; dist.backend staged works without NCCL",
        "ncclAllReduce failed: remote process exited or there was a network error (...). "
        "NCCL_DEBUG=WARN prints more"}) {
    Printed printed;
    printed.output.add(
        "[1,1]<stderr>:a warning\n[1,0]<stderr>:[rank 0] error: rank 1 has sent no heartbeat for "
        "5.1 s (last: phase "
        "all_reduce, step 5). Its process is stopped, or the machine is "
        "swapping\n[1,1]<stderr>:[rank 1] error: " +
            text + "\n",
        true);
    EXPECT_EQ(printed.output.failed_rank(), 1);
    EXPECT_THAT(printed.output.cause(), HasSubstr("rank 1 has sent no heartbeat for 5.1 s"));
    EXPECT_THAT(printed.output.last_lines(1), ElementsAre("a warning"));
    EXPECT_THAT(printed.error, HasSubstr(text)) << "it is shown where it was printed";
  }
}

TEST(JobOutput, ARankThatSaysWhyItEndedIsBelievedWhoeverSpeaksFirst) {
  for (const std::string first :
       {"the shared_memory communicator can no longer be used: rank 1 (process 12) has died",
        "the shared_memory communicator can no longer be used: rank 1 has left while others wait "
        "for it",
        "receiving from rank 1 failed: MPI_ERR_OTHER: known error not in list"}) {
    Printed printed;
    printed.output.add(
        "[1,0]<stderr>:[rank 0] error: " + first +
            "\n[1,1]<stderr>:[rank 1] error: data.h5#5: the checksum does not match\n"
            "[1,2]<stderr>:[rank 2] error: " +
            first + "\n",
        true);
    EXPECT_EQ(printed.output.failed_rank(), 1);
    EXPECT_EQ(printed.output.cause(), "[rank 1] error: data.h5#5: the checksum does not match");
    EXPECT_THAT(printed.output.last_lines(1), ElementsAre(HasSubstr("data.h5#5")));
  }
}

TEST(JobOutput, ARankThatRepeatsWhatAnotherOneHasSeenMeansTheSameRank) {
  Printed printed;
  printed.output.add(
      "[1,1]<stderr>:[rank 1] error: the shared_memory communicator can no longer be used: rank 0: "
      "rank 2 (process 12) "
      "has died\n[1,0]<stderr>:[rank 0] error: the shared_memory communicator can no longer be "
      "used: rank 2 (process "
      "12) has died\n",
      true);
  EXPECT_EQ(printed.output.failed_rank(), 2);
  EXPECT_THAT(printed.output.last_lines(0), ElementsAre(HasSubstr("rank 2 (process 12)")));
}

TEST(JobOutput, AFullGpuIsTheErrorOfItsRank) {
  Printed printed;
  printed.output.add(
      "[1,0]<stderr>:[rank 0] error: the communicator of the gradients says: rank 1 (process 12) "
      "has died\n"
      "[1,1]<stderr>:[rank 1] error: a collective failed: out of memory (...): the GPU has too "
      "little memory left for "
      "NCCL's buffers. Use a smaller --batch-size\n",
      true);
  EXPECT_EQ(printed.output.failed_rank(), 1);
  EXPECT_THAT(printed.output.cause(), HasSubstr("too little memory left"));
}

TEST(JobOutput, ARankThatWaitsInAFailedCommunicatorNamesTheCauseNext) {
  Printed printed;
  printed.output.add(
      "[1,0]<stderr>:[rank 0] error: rank 0 has made no progress for 5.1 s in phase all_reduce, "
      "step 5: it waits in a "
      "communicator that has failed\n",
      true);
  EXPECT_EQ(printed.output.failed_rank(), 0);
  printed.output.add(
      "[1,0]<stderr>:[rank 0] error: the communicator of the gradients says: the shared_memory "
      "communicator can no "
      "longer be used: rank 1 (process 12) has died\n",
      true);
  EXPECT_EQ(printed.output.failed_rank(), 1);
  EXPECT_THAT(printed.output.cause(), HasSubstr("rank 1 (process 12) has died"));
  EXPECT_THAT(printed.output.last_lines(0),
              ElementsAre(HasSubstr("waits in"), HasSubstr("rank 1 (process 12)")));
}

TEST(JobOutput, ARankHoldsTheRunOnceItsBannerNamesTheFolder) {
  Printed printed;
  printed.output.add(
      "[1,1]<stdout>:  run folder runs/r\n[1,0]<stdout>:error: the run folder runs/r\n", false);
  EXPECT_FALSE(printed.output.holds_run());
  EXPECT_EQ(printed.output.run_folder(), "");
  printed.output.add("[1,0]<stdout>:  run folder my runs/r-2\n[1,0]<stdout>:  run folder runs/s\n",
                     false);
  EXPECT_TRUE(printed.output.holds_run());
  EXPECT_EQ(printed.output.run_folder(), "my runs/r-2");
}

TEST(JobOutput, OfRanksThatAreMissedTogetherTheFirstIsTheOneThatFailed) {
  Printed printed;
  printed.output.add(
      "[1,6]<stdout>:epoch 1\n[1,0]<stderr>:[rank 0 on host0] error: ranks 6-7 on host3 have sent "
      "no heartbeat for "
      "5.1 s (last: phase all_reduce, step 5)\n",
      true);
  EXPECT_EQ(printed.output.failed_rank(), 6);
  EXPECT_THAT(printed.output.cause(), HasSubstr("ranks 6-7 on host3 have sent no heartbeat"));
  EXPECT_THAT(printed.output.last_lines(6), ElementsAre("epoch 1"));
}

TEST(JobOutput, ARankThatLeftWithoutAWordIsNamedByMpirun) {
  Printed printed;
  printed.output.add(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[40513,1],3]\n  Exit code:    76\n",
      true);
  EXPECT_EQ(printed.output.failed_rank(), 3);
  EXPECT_EQ(printed.output.cause(), "rank 3: exit code 76");
}

TEST(JobOutput, KeepsTheLastLinesOfEachRank) {
  Printed printed;
  for (int i = 0; i < 25; ++i)
    printed.output.add("[1,1]<stdout>:line " + std::to_string(i) + "\n", false);
  const auto lines = printed.output.last_lines(1);
  ASSERT_EQ(lines.size(), JobOutput::kLastLines);
  EXPECT_EQ(lines.back(), "line 24");
  EXPECT_TRUE(printed.output.last_lines(0).empty());
}

TEST(JobOutput, KnowsWhatMpirunRefuses) {
  Printed refused, ended;
  refused.output.add("mpirun: Error: unknown option \"--foo\"\n", true);
  EXPECT_TRUE(refused.output.was_refused());
  ended.output.add("[1,0]<stderr>:mpirun: Error: of a rank\n", true);
  EXPECT_FALSE(ended.output.was_refused()) << "a rank may print anything";
}

TEST(JobOutput, ALostDaemonIsNamedByItsHost) {
  Printed printed;
  printed.output.add(
      "--------------------------------------------------------------------------\n"
      "ORTE has lost communication with a remote daemon.\n\n"
      "  HNP daemon   : [[13474,0],0] on node vm\n  Remote daemon: [[13474,0],2] on node host1\n",
      true);
  EXPECT_EQ(printed.output.cause(),
            "mpirun lost its daemon on host host1: the host or its network is down, or something "
            "blocks the "
            "connection: look with `ssh host1` and launch/ssh/check");
  EXPECT_EQ(printed.output.failed_rank(), std::nullopt);
}

TEST(JobOutput, TheFirstWordsOfMpirunAreTheCauseWhereThereIsNoOther) {
  Printed printed;
  printed.output.add(
      "----\n\nORTE was unable to reliably start one or more daemons.\nThis usually is caused by\n",
      true);
  EXPECT_EQ(printed.output.cause(), "ORTE was unable to reliably start one or more daemons.");
  EXPECT_TRUE(printed.output.lacks_host());
}

TEST(JobOutput, ADaemonThatDidNotStartIsNoticedWhateverTheRemoteShellSaysFirst) {
  for (const char* said :
       {"ORTE was unable to reliably start one or more daemons.\n",
        "An ORTE daemon has unexpectedly failed after launch and before\ncommunicating back.\n"}) {
    Printed printed;
    printed.output.add("Warning: Permanently added 'b' (ED25519) to the list of known hosts.\r\n",
                       true);
    printed.output.add("ssh: connect to host b port 22: Connection refused\r\n-----\n", true);
    EXPECT_FALSE(printed.output.lacks_host());
    printed.output.add(said, true);
    EXPECT_TRUE(printed.output.lacks_host()) << said;
    EXPECT_EQ(printed.output.cause(), "ssh: connect to host b port 22: Connection refused");
  }
}

TEST(JobOutput, TheFirstWordsOfMpirunAreASentence) {
  Printed printed;
  printed.output.add(
      "--------\nmpirun was unable to find the specified executable file, and therefore\ndid not "
      "launch the job.  This "
      "error was first reported for process\nrank 0.\n",
      true);
  EXPECT_EQ(printed.output.cause(),
            "mpirun was unable to find the specified executable file, and therefore did not launch "
            "the job.");
  Printed list;
  list.output.add("****\nOpen RTE was unable to open the hostfile:\n    none\n\nSomething else.\n",
                  true);
  EXPECT_EQ(list.output.cause(), "Open RTE was unable to open the hostfile: none");
}

TEST(JobOutput, ALimitOfTimeOfMpirunIsNoCrash) {
  Printed printed;
  printed.output.add(
      "The user-provided time limit for job execution has been reached:\n\n  Timeout: 3 seconds\n",
      true);
  EXPECT_TRUE(printed.output.was_refused());
}

TEST(JobOutput, WithoutAWordThereIsNoCause) {
  Printed printed;
  printed.output.add("[1,0]<stderr>:all is well\n[1,0]<stderr>:warning: not an error: a warning\n",
                     true);
  EXPECT_EQ(printed.output.cause(), "");
  EXPECT_EQ(printed.output.failed_rank(), std::nullopt);
}

}  // namespace
}  // namespace dtrain::supervisor

#include "supervisor/job_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::nullopt_t kNoFailedRank = std::nullopt;

struct Printed {
  std::string out, error;
  JobOutput output{
      [this](std::string_view text, bool is_error) { (is_error ? error : out) += text; }};

  // What a rank of several writes where it fails. `culprit`: whose failure that is.
  void fails(int rank, std::optional<int> culprit, const std::string& message) {
    const std::string text = str("[rank ", rank, "] error: ", message);
    line(rank, text);
    line(rank, dist::line_of({.rank = rank, .host = "vm", .culprit = culprit, .text = text}));
  }
  void line(int rank, const std::string& text) {
    output.add(str("[1,", rank, "]<stderr>:", text, "\n"), true);
  }
};

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
  printed.fails(0, 0, "no such file");
  EXPECT_EQ(printed.error, "\r\x1b[K10 %\r\x1b[K20 %[rank 0] error: no such file\n");
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

TEST(JobOutput, PeopleSeeNoLinesForMachines) {
  Printed printed;
  printed.fails(1, 1, "data.h5#5: the checksum does not match");
  printed.line(0, dist::line_of(dist::HeldRun{"runs/r"}));
  const std::string line = dist::line_of({.rank = 2, .host = "vm", .culprit = 2, .text = "t"});
  printed.line(2, "\x1b[K" + line);  // below a progress bar
  printed.line(2, "half a warning" + line);
  printed.output.add("[1,2]<stderr>:" + line, true);  // the job ended before the line feed
  printed.output.finish();
  EXPECT_EQ(printed.error,
            "[rank 1] error: data.h5#5: the checksum does not match\nhalf a warning\n");
  EXPECT_THAT(printed.output.last_lines(1), ElementsAre(HasSubstr("data.h5#5")));
  EXPECT_THAT(printed.output.last_lines(2), ElementsAre("half a warning"));
}

// mpirun cuts what a rank writes at 4096 bytes, and other ranks come between.
TEST(JobOutput, ARecordMayComeInPiecesBetweenThoseOfOthers) {
  const std::string text = str("[rank 3] error: ", std::string(1900, 'x'));
  const std::string line =
      dist::line_of({.rank = 3, .host = "vm", .culprit = 3, .exit_code = 65, .text = text});
  for (size_t at = 1; at < line.size(); at += 7) {
    Printed printed;
    printed.output.add("[1,3]<stderr>:" + line.substr(0, at), true);
    printed.output.add("[1,1]<stderr>:a warning\n[1,3]<stde", true);
    printed.output.add("rr>:" + line.substr(at) + "\n", true);
    EXPECT_EQ(printed.output.failed_rank(), 3) << at;
    EXPECT_EQ(printed.output.cause(), text) << at;
    EXPECT_EQ(printed.error, "a warning\n") << at;
  }
}

TEST(JobOutput, WhatIsNoRecordOfItsRankIsALine) {
  const std::string record = dist::line_of({.rank = 1, .host = "vm", .culprit = 1, .text = "t"});
  const std::vector<std::string> lines = {record.substr(0, record.size() / 2),  // cut
                                          record + "}",  // two ranks in one line
                                          "dtrain-failure " + std::string(30000, '['),
                                          "dtrain-failure null", "dtrain-run {\"folder\":7}"};
  for (const std::string& line : lines) {
    Printed printed;
    printed.line(1, line);
    EXPECT_EQ(printed.error, line + "\n");
    EXPECT_EQ(printed.output.failed_rank(), kNoFailedRank) << line;
    EXPECT_FALSE(printed.output.holds_run()) << line;
  }
  Printed printed;
  printed.output.add("[1,1]<stdout>:" + record + "\n" + record + "\n", false);
  EXPECT_EQ(printed.output.failed_rank(), kNoFailedRank) << "of standard output, or of mpirun";
  printed.line(2, record);
  EXPECT_EQ(printed.output.failed_rank(), kNoFailedRank) << "of another rank";
}

// Words are for people: what the supervisor decides from is the same whatever they are.
TEST(JobOutput, RewordingAMessageChangesNothing) {
  const auto decided = [](bool reword) {
    Printed printed;
    const auto words = [&](const std::string& text) { return reword ? "Ω" : text; };
    printed.line(0, words("  run folder runs/other"));
    printed.line(0, dist::line_of(dist::HeldRun{"runs/r"}));
    printed.line(1, words("[rank 1] error: rank 2 (process 7) has died"));
    printed.line(0, words("[rank 0] error: the mpi communicator can no longer be used"));
    printed.line(
        0, dist::line_of({.rank = 0, .host = "vm", .culprit = {}, .text = words("no others")}));
    printed.line(0, dist::line_of(
                        {.rank = 0, .host = "vm", .culprit = 3, .text = words("rank 3 has died")}));
    printed.line(3, words("error: rank 0 sent no heartbeat"));
    printed.line(3, dist::line_of(
                        {.rank = 3, .host = "vm", .culprit = 0, .text = words("rank 0 has left")}));
    return std::tuple(printed.output.failed_rank(), printed.output.run_folder(),
                      printed.output.has_begun(), printed.output.mpirun().was_refused());
  };
  EXPECT_EQ(decided(false), std::tuple(3, "runs/r", true, false));
  EXPECT_EQ(decided(true), decided(false));
}

TEST(JobOutput, ARankThatASignalEndedIsTheCauseOfWhatTheOthersSay) {
  Printed printed;
  printed.output.add("[1,2]<stderr>:working\n", true);
  printed.fails(0, 0, "rank 2 is gone");
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
  printed.line(1, "epoch 1");
  printed.fails(0, 1, "rank 1 (process 27873) has died");
  EXPECT_EQ(printed.output.failed_rank(), 1);
  EXPECT_EQ(printed.output.cause(), "[rank 0] error: rank 1 (process 27873) has died");
  EXPECT_THAT(printed.output.last_lines(1), ElementsAre("epoch 1"));
}

TEST(JobOutput, WhatAStoppedRankSaysWhenTheJobEndsIsNotWhyItFailed) {
  for (const std::optional<int> culprit : {std::optional(0), std::optional<int>()}) {
    Printed printed;
    printed.line(1, "a warning");
    printed.fails(0, 1, "rank 1 has sent no heartbeat");
    printed.fails(1, culprit, "it misses the others");
    EXPECT_EQ(printed.output.failed_rank(), 1);
    EXPECT_THAT(printed.output.cause(), HasSubstr("rank 1 has sent no heartbeat"));
    EXPECT_THAT(printed.output.last_lines(1), ElementsAre("a warning"));
    EXPECT_THAT(printed.error, HasSubstr("it misses")) << "it is shown where it was printed";
  }
}

TEST(JobOutput, ARankThatSaysWhyItEndedIsBelievedWhoeverSpeaksFirst) {
  for (const std::optional<int> culprit : {std::optional(1), std::optional<int>()}) {
    Printed printed;
    printed.fails(0, culprit, "it misses rank 1");
    printed.fails(1, 1, "data.h5#5: the checksum does not match");
    printed.fails(2, culprit, "it misses rank 1");
    EXPECT_EQ(printed.output.failed_rank(), 1);
    EXPECT_EQ(printed.output.cause(), "[rank 1] error: data.h5#5: the checksum does not match");
    EXPECT_THAT(printed.output.last_lines(1), ElementsAre(HasSubstr("data.h5#5")));
  }
}

TEST(JobOutput, ARankThatRepeatsWhatAnotherOneHasSeenMeansTheSameRank) {
  Printed printed;
  printed.fails(1, 2, "rank 0: rank 2 has died");
  printed.fails(0, 2, "rank 2 has died");
  EXPECT_EQ(printed.output.failed_rank(), 2);
  EXPECT_THAT(printed.output.last_lines(0), ElementsAre(HasSubstr("rank 2 has died")));
}

TEST(JobOutput, ARankThatMissesOthersMayNameTheCulpritNext) {
  Printed printed;
  printed.fails(0, kNoFailedRank, "it waits in a communicator that has failed");
  EXPECT_EQ(printed.output.failed_rank(), 0);
  printed.fails(2, 3, "rank 3 has left");
  EXPECT_EQ(printed.output.failed_rank(), 0) << "rank 2 may have seen the consequence";
  printed.fails(0, 1, "rank 1 (process 12) has died");
  EXPECT_EQ(printed.output.failed_rank(), 1);
  EXPECT_THAT(printed.output.cause(), HasSubstr("rank 1 (process 12) has died"));
  EXPECT_THAT(printed.output.last_lines(0), ElementsAre(HasSubstr("waits in"), HasSubstr("died")));
}

TEST(JobOutput, RankZeroNamesTheRunThatItHolds) {
  Printed printed;
  printed.line(1, dist::line_of(dist::HeldRun{"runs/of-rank-1"}));
  EXPECT_FALSE(printed.output.holds_run());
  printed.line(0, dist::line_of(dist::HeldRun{"my runs/r-2"}));
  printed.line(0, dist::line_of(dist::HeldRun{"runs/s"}));
  EXPECT_TRUE(printed.output.holds_run());
  EXPECT_EQ(printed.output.run_folder(), "my runs/r-2");
}

TEST(JobOutput, ARankThatLeftWithoutAWordIsNamedByMpirun) {
  Printed printed;
  printed.output.add("  Process name: [[40513,1],3]\n  Exit code:    76\n", true);
  EXPECT_EQ(printed.output.failed_rank(), 3);
  EXPECT_EQ(printed.output.cause(), "rank 3: exit code 76");
}

TEST(JobOutput, ARankMaySayAnythingThatMpirunSays) {
  Printed printed;
  printed.line(1, "mpirun: Error: of a rank");
  EXPECT_FALSE(printed.output.mpirun().was_refused());
  printed.output.add("ssh: connect to host b port 22: Connection refused\r\n-----\n", true);
  EXPECT_EQ(printed.output.cause(), "ssh: connect to host b port 22: Connection refused");
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

TEST(JobOutput, WithoutAWordThereIsNoCause) {
  Printed printed;
  printed.line(0, "all is well");
  printed.line(0, "error: of a library");
  EXPECT_EQ(printed.output.cause(), "");
  EXPECT_EQ(printed.output.failed_rank(), std::nullopt);
}

}  // namespace
}  // namespace dtrain::supervisor

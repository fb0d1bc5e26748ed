#include "supervisor/mpirun_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

MpirunWords words_of(const std::string& text) {
  MpirunWords words;
  for (const std::string& line : split(text, '\n')) words.add(line);
  return words;
}

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

TEST(MpirunWords, NameTheRankThatASignalEnded) {
  const MpirunWords words = words_of(
      "--------------------------------------------------------------------------\n"
      "mpirun noticed that process rank 2 with PID 0 on node host1 exited on signal 9 (Killed).\n");
  ASSERT_TRUE(words.ended());
  EXPECT_EQ(words.ended()->rank, 2);
  EXPECT_EQ(words.ended()->text, "rank 2 on host1: ended by signal 9 (Killed)");
  EXPECT_TRUE(words.ended()->by_signal);
}

TEST(MpirunWords, NameARankThatLeftWithoutAWord) {
  const MpirunWords words = words_of(
      "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
      "the job to be terminated. The first process to do so was:\n\n"
      "  Process name: [[40513,1],3]\n  Exit code:    76\n");
  ASSERT_TRUE(words.ended());
  EXPECT_EQ(words.ended()->rank, 3);
  EXPECT_EQ(words.ended()->text, "rank 3: exit code 76");
  EXPECT_FALSE(words.ended()->by_signal);
}

TEST(MpirunWords, SayWhatIsRefused) {
  EXPECT_TRUE(words_of("mpirun: Error: unknown option \"--foo\"\n").was_refused());
  EXPECT_TRUE(words_of("The user-provided time limit for job execution has been reached:\n\n"
                       "  Timeout: 3 seconds\n")
                  .was_refused());
  EXPECT_FALSE(words_of("mpirun lost a daemon\n").was_refused());
}

TEST(MpirunWords, NameTheHostOfALostDaemon) {
  const MpirunWords words = words_of(
      "--------------------------------------------------------------------------\n"
      "ORTE has lost communication with a remote daemon.\n\n"
      "  HNP daemon   : [[13474,0],0] on node vm\n  Remote daemon: [[13474,0],2] on node host1\n");
  EXPECT_EQ(words.lost_host(), "host1");
  EXPECT_EQ(words.cause(),
            "mpirun lost its daemon on host host1: the host or its network is down, or something "
            "blocks the connection: look with `ssh host1` and launch/ssh/check");
  EXPECT_FALSE(words.ended());
}

TEST(MpirunWords, TellADaemonThatDidNotStartWhateverTheRemoteShellSaysFirst) {
  for (const char* said :
       {"ORTE was unable to reliably start one or more daemons.\n",
        "An ORTE daemon has unexpectedly failed after launch and before\ncommunicating back.\n"}) {
    EXPECT_TRUE(words_of(said).lacks_host()) << said;
    const std::string shell =
        "Warning: Permanently added 'b' (ED25519) to the list of known hosts.\n"
        "ssh: connect to host b port 22: Connection refused\n-----\n";
    EXPECT_FALSE(words_of(shell).lacks_host());
    EXPECT_TRUE(words_of(shell + said).lacks_host()) << said;
    EXPECT_EQ(words_of(shell + said).cause(), "ssh: connect to host b port 22: Connection refused");
  }
}

TEST(MpirunWords, BeginWithTheCause) {
  EXPECT_EQ(words_of("----\n\nORTE was unable to reliably start one or more daemons.\n"
                     "This usually is caused by\n")
                .cause(),
            "ORTE was unable to reliably start one or more daemons.");
  EXPECT_EQ(
      words_of("--------\nmpirun was unable to find the specified executable file, and therefore\n"
               "did not launch the job.  This error was first reported for process\nrank 0.\n")
          .cause(),
      "mpirun was unable to find the specified executable file, and therefore did not launch the "
      "job.");
  EXPECT_EQ(
      words_of("****\nOpen RTE was unable to open the hostfile:\n    none\n\nMore.\n").cause(),
      "Open RTE was unable to open the hostfile: none");
  EXPECT_EQ(words_of("").cause(), "");
}

TEST(MpirunWords, AForwardedSignalIsNoNews) {
  EXPECT_TRUE(MpirunWords::is_no_news("mpirun: Forwarding signal 10 to job"));
  EXPECT_FALSE(MpirunWords::is_no_news("mpirun: Error: unknown option"));
}

}  // namespace
}  // namespace dtrain::supervisor

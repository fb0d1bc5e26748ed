// A program that is run and watched: its output and its end, and the limits at which it is ended.

#include "os/run_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "os/child_process.h"
#include "text/strings.h"

namespace dtrain {
namespace {

using ::testing::HasSubstr;
using Why = ChildEnd::Why;

ChildEnd shell(const std::string& script, const std::string& input = "",
               const ChildLimits& limits = {.seconds = 30}, const std::function<bool()>& stop = {},
               const std::vector<std::string>& environment = {}) {
  return run_child({"/bin/sh", "-c", script}, environment, input, limits, stop);
}

// Whether a process of this number is there, other than as a zombie that was not waited for.
bool lives(const std::string& process) {
  std::ifstream status("/proc/" + process + "/stat");
  std::string text;
  std::getline(status, text);
  const size_t name = text.rfind(')');
  return name != std::string::npos && text.substr(name + 2, 1) != "Z";
}

TEST(RunChild, GivesOutputAndCode) {
  const ChildEnd end = shell("read line; echo \"got $line\"; echo trouble >&2; exit 7", "a line\n");
  EXPECT_EQ(end.why, Why::kExited);
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(end.output, "got a line\n");
  EXPECT_EQ(end.errors, "trouble\n");
}

TEST(RunChild, GivesTheEnvironmentAndNothingElse) {
  EXPECT_EQ(shell("echo $ONE; ls /proc/self/fd | wc -l", "", {.seconds = 30}, {},
                  {"ONE=1", "PATH=/usr/bin:/bin"})
                .output,
            "1\n4\n")
      << "three standard files, and the folder that ls reads";
}

TEST(RunChild, TakesLongOutput) {
  const ChildEnd end =
      shell("i=0; while [ $i -lt 30000 ]; do echo 0123456789; i=$((i+1)); done; echo end >&2");
  EXPECT_EQ(end.output.size(), 30000u * 11);
  const ChildEnd longer =
      shell("i=0; while [ $i -lt 3000 ]; do echo 0123456789 >&2; i=$((i+1)); done; echo end >&2");
  EXPECT_LE(longer.errors.size(), 16u << 10);
  EXPECT_TRUE(longer.errors.ends_with("end\n")) << "the end is what says why";
}

TEST(RunChild, SaysWhichSignalEndedIt) {
  const ChildEnd end = shell("kill -SEGV $$");
  EXPECT_EQ(end.why, Why::kSignaled);
  EXPECT_EQ(end.code, SIGSEGV);
}

TEST(RunChild, EndsWhatTakesTooLongWithAllThatItStarted) {
  const auto began = std::chrono::steady_clock::now();
  const ChildEnd end = shell("sleep 100 & echo $!; wait", "", {.seconds = 0.3});
  EXPECT_EQ(end.why, Why::kTooLong);
  EXPECT_LT(seconds_since(began), 20);
  const std::string sleeper(trimmed(end.output));
  // A signal that was sent is not yet an end.
  for (const auto asked = std::chrono::steady_clock::now();
       lives(sleeper) && seconds_since(asked) < 20;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(lives(sleeper));
}

TEST(RunChild, EndsWhatTakesTooMuchMemory) {
  // A shell variable of 128 MiB.
  const ChildEnd end =
      shell("x=0123456789abcdef; while [ ${#x} -lt 134217728 ]; do x=$x$x; done; sleep 100", "",
            {.seconds = 60, .resident_bytes = 64 << 20});
  EXPECT_EQ(end.why, Why::kTooLarge);
}

TEST(RunChild, EndsWhenAsked) {
  int asked = 0;
  EXPECT_EQ(shell("sleep 100", "", {.seconds = 60}, [&] { return ++asked > 5; }).why,
            Why::kStopped);
}

TEST(RunChild, WaitsForNoOutputOfOthers) {
  const auto began = std::chrono::steady_clock::now();
  // In a session of its own, it holds the pipes open and is in no group that is ended.
  const ChildEnd end = shell("setsid sleep 30 & echo done");
  EXPECT_EQ(end.output, "done\n");
  EXPECT_LT(seconds_since(began), 20);
}

TEST(RunChild, ThrowsWhatCannotBeStarted) {
  try {
    run_child({"/nonexistent/program"}, {}, "", {}, {});
    ADD_FAILURE() << "it was started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/program"));
  }
  EXPECT_THROW(run_child({"/bin/true"}, {}, std::string(1 << 20, 'x'), {}, {}), Error);
}

TEST(EndWithParent, EndsTheChildWhenItsParentDies) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t self = ::getpid();
    if (::fork() == 0) {
      const char known = end_with_parent(self) ? 'y' : 'n';
      if (::write(ends[1], &known, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    for (;;) ::pause();
  }
  ::close(ends[1]);
  char known = 0;
  ASSERT_EQ(::read(ends[0], &known, 1), 1);
  EXPECT_EQ(known, 'y');
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_EQ(::read(ends[0], &known, 1), 0) << "the end of the pipe: the child is gone";
  ::close(ends[0]);
  EXPECT_FALSE(end_with_parent(1 << 30)) << "another process";
}

}  // namespace
}  // namespace dtrain

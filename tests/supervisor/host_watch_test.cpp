// Hosts that answer, fall silent and come back: the remote shell is a script that looks at files.

#include "supervisor/host_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "core/clock.h"
#include "dist/launcher.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"

namespace dtrain::supervisor {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr double kTimeout = 3;  // seconds; the lines come each second

class HostWatchTest : public ::testing::Test {
 protected:
  // The agent runs the command; it refuses where there is a file DOWN-HOST, and is silent where
  // there is SILENT-HOST.
  HostWatchTest() {
    const fs::path script = folder_ / "agent";
    std::ofstream(script)
        << "#!/bin/sh\nhost=$1; shift; cd " << folder_.path().string()
        << "\n[ ! -e DOWN-$host ] || { echo \"$host: connection refused\" >&2; exit 255; }\n"
           "[ ! -e SILENT-$host ] || exec sleep 100\n"
           "sh -c \"$*\" | while read -r line; do\n"
           "  [ ! -e DOWN-$host ] && [ ! -e SILENT-$host ] || exit 1\n  echo\ndone\n";
    fs::permissions(script, fs::perms::owner_all);
  }
  HostWatch watch(std::vector<Host> hosts, double timeout = kTimeout) {
    return {std::move(hosts), {(folder_ / "agent").string()}, dist::environment(), timeout, clock_};
  }
  void put(const std::string& name) { std::ofstream(folder_ / name) << "x"; }
  void remove(const std::string& name) { fs::remove(folder_ / name); }

  // Polls until it is so; false after 20 s. In each pause the clock advances by `step`: kPause
  // where hosts answer, which they do once a second; kFast where none does.
  static constexpr std::chrono::milliseconds kPause{20}, kFast{200};
  bool until(HostWatch& watch, std::vector<HostWatch::Change>& changes,
             const std::function<bool()>& so, std::chrono::milliseconds step = kPause) {
    const auto began = std::chrono::steady_clock::now();
    while (seconds_since(began) < 20) {
      clock_.advance(step);
      for (const HostWatch::Change& change : watch.poll()) changes.push_back(change);
      if (so()) return true;
      std::this_thread::sleep_for(kPause);
    }
    return false;
  }

  dtrain::testing::TempDir folder_;
  const dtrain::testing::FakeClock clock_;
};

TEST_F(HostWatchTest, HostsThatAnswerAreKnownSoon) {
  HostWatch hosts = watch({{"localhost", 1}, {"a", 2}, {"b", 1}}, 20);
  hosts.ask();
  EXPECT_FALSE(hosts.all_known());
  std::vector<HostWatch::Change> changes;
  ASSERT_TRUE(until(hosts, changes, [&] { return hosts.all_known(); }));
  EXPECT_EQ(hosts.answering().size(), 3u);
  EXPECT_TRUE(changes.empty());
}

TEST_F(HostWatchTest, AHostThatRefusesIsLostWithItsWordsAndComesBack) {
  put("DOWN-a");
  HostWatch hosts = watch({{"a", 1}, {"b", 1}});
  hosts.ask();
  std::vector<HostWatch::Change> changes;
  ASSERT_TRUE(until(hosts, changes, [&] { return hosts.all_known(); }));
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].host, "a");
  EXPECT_FALSE(changes[0].answers);
  EXPECT_THAT(changes[0].why, HasSubstr("connection refused"));
  EXPECT_EQ(hosts.answering(), (std::vector<Host>{{"b", 1}}));
  remove("DOWN-a");
  ASSERT_TRUE(until(hosts, changes, [&] { return changes.size() == 2; }));
  EXPECT_TRUE(changes[1].answers);
  EXPECT_EQ(hosts.answering().size(), 2u);
}

TEST_F(HostWatchTest, AHostThatFallsSilentIsLostAfterTheTimeout) {
  HostWatch hosts = watch({{"a", 1}});
  std::vector<HostWatch::Change> changes;
  hosts.ask();
  ASSERT_TRUE(until(hosts, changes, [&] { return hosts.all_known(); }));
  const auto began = clock_.now();  // when it answered
  put("SILENT-a");
  ASSERT_TRUE(until(
      hosts, changes, [&] { return !changes.empty(); }, kFast));
  EXPECT_GE(seconds_between(began, clock_.now()), kTimeout);
  EXPECT_FALSE(changes[0].answers);
  EXPECT_THAT(changes[0].why, HasSubstr("no answer for 3 s"));
  remove("SILENT-a");  // the silent connection never ends by itself
  ASSERT_TRUE(until(hosts, changes, [&] { return changes.size() == 2; }));
  EXPECT_TRUE(changes[1].answers);
}

TEST_F(HostWatchTest, OneThatWasLostBeforeTheQuestionIsWaitedForOnlyAMoment) {
  put("SILENT-a");
  HostWatch hosts = watch({{"a", 1}});
  std::vector<HostWatch::Change> changes;
  ASSERT_TRUE(until(
      hosts, changes, [&] { return !changes.empty(); }, kFast));
  const auto began = clock_.now();
  hosts.ask();
  EXPECT_FALSE(hosts.all_known()) << "it may answer again";
  ASSERT_TRUE(until(
      hosts, changes, [&] { return hosts.all_known(); }, kFast));
  EXPECT_GE(seconds_between(began, clock_.now()), HostWatch::kSecondLook);
  EXPECT_TRUE(hosts.answering().empty());
}

TEST_F(HostWatchTest, ARemoteShellThatIsNotThereIsAHostThatDoesNotAnswer) {
  HostWatch hosts({{"a", 1}}, {"/no/such/shell"}, dist::environment(), kTimeout, clock_);
  std::vector<HostWatch::Change> changes;
  ASSERT_TRUE(until(hosts, changes, [&] { return !changes.empty(); }));
  EXPECT_THAT(changes[0].why, HasSubstr("/no/such/shell"));
}

}  // namespace
}  // namespace dtrain::supervisor

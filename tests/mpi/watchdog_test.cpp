// The watchdog on real MPI ranks, on a clock that the test moves: its thread, its heartbeats, and
// how it ends. What it decides is tested in tests/dist/stall_detector_test.cpp, how it ends a job
// in dist_processes_test.py.

#include "dist/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "core/error.h"
#include "support/fake_clock.h"
#include "tests/mpi/world_of_test.h"

namespace dtrain::dist {
namespace {

using namespace std::chrono_literals;
using testing::FakeClock;
using testing::world_of_test;

constexpr double kTimeout = 0.4;  // seconds of the fake clock; the thread looks at it every 10 ms
constexpr auto kPeriod = 40ms;    // of heartbeats; time counts in steps of at most this
constexpr auto kDeadline = 60s;   // of the real clock, for a loaded machine

// The message of an alarm.
class Alarm {
 public:
  void raise(const PeerError& error) {
    const std::lock_guard lock(mutex_);
    message_ = error.what();
    peer_ = error.peer();
  }
  std::string message() const {
    const std::lock_guard lock(mutex_);
    return message_;
  }
  std::optional<int> peer() const {
    const std::lock_guard lock(mutex_);
    return peer_;
  }

 private:
  mutable std::mutex mutex_;
  std::string message_;
  std::optional<int> peer_;
};

// Moves the clock in steps that the watchdog counts in full until `done`; false: not before
// the deadline.
template <typename Done>
bool advance_until(const FakeClock& clock, Done done) {
  const auto started = std::chrono::steady_clock::now();
  while (!done()) {
    if (std::chrono::steady_clock::now() - started > kDeadline) return false;
    clock.advance(kPeriod);
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

TEST(Watchdog, EndsQuietlyWhenAllRanksClose) {
  const FakeClock clock;
  Alarm alarm;
  Watchdog watchdog(
      world_of_test(), kTimeout, [&](const PeerError& error) { alarm.raise(error); }, clock);
  for (int step = 1; step <= 20; ++step) {
    watchdog.progress("data", step);
    clock.advance(1h);  // as if the process had been suspended
    std::this_thread::sleep_for(2ms);
    watchdog.alive();
  }
  watchdog.close();
  EXPECT_EQ(alarm.message(), "");
}

// Each rank watches itself alone, because the clocks of several ranks would not move together.
TEST(Watchdog, ReportsThePhaseInWhichARankIsStuckAndCloseThrows) {
  const FakeClock clock;
  Alarm alarm;
  Watchdog watchdog(
      World{}, kTimeout, [&](const PeerError& error) { alarm.raise(error); }, clock);
  watchdog.progress("checkpoint", 7);
  EXPECT_TRUE(advance_until(clock, [&] { return !alarm.message().empty(); }));
  EXPECT_EQ(
      alarm.message().find("rank 0 has made no progress for 0.4 s in phase checkpoint, step 7"), 0u)
      << alarm.message();
  EXPECT_EQ(alarm.peer(), 0);
  EXPECT_THROW(watchdog.close(), CommError);
}

TEST(Watchdog, AsksCommunicatorsAsSoonAsItsRankWaits) {
  const FakeClock clock;
  Alarm alarm;
  std::atomic<int> asked = 0;
  std::atomic<bool> failed = false;
  Watchdog watchdog(
      World{}, kTimeout, [&](const PeerError& error) { alarm.raise(error); }, clock);
  watchdog.ask([&] {
    ++asked;
    if (failed) throw PeerError("ncclAllReduce failed: unhandled system error");
  });
  for (int step = 1; step <= 100; ++step) {
    watchdog.progress("forward", step);
    clock.advance(kPeriod / 20);
    std::this_thread::sleep_for(12ms);
  }
  EXPECT_EQ(asked, 0) << "a rank that makes progress has nothing to ask";
  watchdog.progress("all_reduce", 101);
  failed = true;
  EXPECT_TRUE(advance_until(clock, [&] { return !alarm.message().empty(); }));
  // After a tenth of the timeout, or later on a loaded machine, but not after all of it.
  EXPECT_EQ(alarm.message().find("rank 0 has made no progress for 0."), 0u) << alarm.message();
  EXPECT_NE(alarm.message().find(
                "in phase all_reduce, step 101: ncclAllReduce failed: unhandled system error"),
            std::string::npos)
      << alarm.message();
  EXPECT_EQ(alarm.peer(), std::nullopt);
  EXPECT_THROW(watchdog.close(), CommError);
}

TEST(Watchdog, ReportsNothingWhileTheClockStands) {
  const FakeClock clock;
  Alarm alarm;
  Watchdog watchdog(
      World{}, kTimeout, [&](const PeerError& error) { alarm.raise(error); }, clock);
  watchdog.progress("data", 1);
  std::this_thread::sleep_for(50ms);
  clock.advance(1h);  // counts as one period, however long it was
  std::this_thread::sleep_for(50ms);
  watchdog.close();
  EXPECT_EQ(alarm.message(), "");
}

}  // namespace
}  // namespace dtrain::dist

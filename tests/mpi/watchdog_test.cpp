// The watchdog on real MPI ranks, on a clock that the test moves: its thread, its heartbeats, and
// how it ends. What it decides is tested in tests/dist/stall_detector_test.cpp, how it ends a job
// in dist_processes_test.py.

#include "dist/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <optional>
#include <string>

#include "core/error.h"
#include "support/fake_clock.h"
#include "tests/mpi/world_of_test.h"

namespace dtrain::dist {
namespace {

using namespace std::chrono_literals;
using testing::FakeClock;
using testing::world_of_test;

// Seconds of the fake clock, at which the thread looks every 8 ms. Sums of binary fractions
// are exact.
constexpr double kTimeout = 10.0 / 32;
constexpr auto kPeriod = 31250us;  // between heartbeats; time counts in steps of at most this
constexpr int kTurn = 2;           // reads of the clock after which all was judged that was before

// The message of an alarm.
class Alarm {
 public:
  void raise(const PeerError& error) {
    const std::lock_guard lock(mutex_);
    message_ = error.what();
    peer_ = error.peer();
    raised_.count_down();
  }
  void wait() const { raised_.wait(); }
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
  std::latch raised_{1};
  std::string message_;
  std::optional<int> peer_;
};

TEST(Watchdog, EndsQuietlyWhenAllRanksClose) {
  const FakeClock clock;
  Alarm alarm;
  Watchdog watchdog(
      world_of_test(), kTimeout, [&](const PeerError& error) { alarm.raise(error); }, clock);
  for (int step = 1; step <= 5; ++step) {
    watchdog.progress("data", step);
    clock.wait_for_reads(kTurn);
    clock.advance(1h);  // as if the process had been suspended
    clock.wait_for_reads(kTurn);
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
  clock.wait_for_reads(kTurn);
  for (int period = 1; period < 10; ++period) {
    clock.advance(kPeriod);
    clock.wait_for_reads(kTurn);
  }
  EXPECT_EQ(alarm.message(), "") << "before the timeout";
  clock.advance(kPeriod);
  alarm.wait();
  EXPECT_EQ(
      alarm.message().find("rank 0 has made no progress for 0.3 s in phase checkpoint, step 7"), 0u)
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
  for (int step = 1; step <= 10; ++step) {
    watchdog.progress("forward", step);
    clock.advance(kPeriod / 4);
    clock.wait_for_reads(kTurn);
  }
  EXPECT_EQ(asked, 0) << "a rank that makes progress has nothing to ask";
  watchdog.progress("all_reduce", 11);
  clock.wait_for_reads(kTurn);
  failed = true;
  clock.advance(kPeriod);
  alarm.wait();
  EXPECT_EQ(alarm.message().find("rank 0 has made no progress for 0.0 s"), 0u) << alarm.message();
  EXPECT_NE(alarm.message().find(
                "in phase all_reduce, step 11: ncclAllReduce failed: unhandled system error"),
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
  clock.wait_for_reads(kTurn);
  clock.advance(1h);  // counts as one period, however long it was
  clock.wait_for_reads(kTurn);
  watchdog.close();
  EXPECT_EQ(alarm.message(), "");
}

}  // namespace
}  // namespace dtrain::dist

// How long ranks of a host spin and yield before they sleep, and that a bell wakes them.

#include "dist/shared_wait.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace dtrain::dist {
namespace {

TEST(Patience, SpinsOnlyWhereEachRankHasACore) {
  for (const auto patience : {patience_of_caller, patience_of_thread}) {
    for (const auto& [ranks, cores] : {std::pair{1, 1}, std::pair{2, 2}, std::pair{4, 16}}) {
      EXPECT_GT(patience(ranks, cores).spins, 0) << ranks << " ranks on " << cores << " cores";
    }
    for (const auto& [ranks, cores] : {std::pair{2, 1}, std::pair{3, 2}, std::pair{17, 16}}) {
      EXPECT_EQ(patience(ranks, cores).spins, 0) << ranks << " ranks on " << cores << " cores";
      EXPECT_GT(patience(ranks, cores).yields, 0);
    }
  }
}

TEST(Patience, OfAThreadBesideOthersIsShorter) {
  for (const int ranks : {2, 3}) {
    const Patience caller = patience_of_caller(ranks, 2), thread = patience_of_thread(ranks, 2);
    EXPECT_LE(thread.spins, caller.spins);
    EXPECT_LT(thread.yields, caller.yields);
  }
}

// The second sleep of a wait is a long one, which a bell that rings cuts short. The quickest of
// some tries counts: other programs may keep the sleeper from a core.
TEST(Bell, WakesASleeper) {
  std::chrono::steady_clock::duration least = Bell::kInterval;
  for (int i = 0; i < 10; ++i) {
    Bell bell{};
    std::atomic<bool> reached = false;
    std::atomic<int> sleeps = 0;
    std::thread sleeper([&] {
      bell.wait_until(
          {}, [&] { return reached.load(); }, [&] { ++sleeps; });
    });
    while (sleeps.load() < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto began = std::chrono::steady_clock::now();
    reached.store(true);
    bell.ring();
    sleeper.join();
    least = std::min(least, std::chrono::steady_clock::now() - began);
  }
  EXPECT_LT(least, Bell::kInterval / 4);
}

TEST(Bell, AWaitEndsByWhatStopThrows) {
  Bell bell{};
  int asked = 0;
  const auto stop = [&] {
    if (++asked == 2) throw std::runtime_error("the peer is dead");
  };
  EXPECT_THROW(bell.wait_until(
                   {.spins = 10, .yields = 10}, [] { return false; }, stop),
               std::runtime_error);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace dtrain::dist

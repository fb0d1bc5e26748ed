// How long ranks of a host spin and yield before they sleep, and that a bell wakes them.

#include "dist/shared_wait.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

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

TEST(Bell, WakesASleeperAndItsStopEndsAWait) {
  Bell bell{};
  std::atomic<bool> reached = false;
  std::thread other([&] {
    bell.wait_until(
        {}, [&] { return reached.load(); }, [] {});
  });
  reached.store(true);
  bell.ring();
  other.join();
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

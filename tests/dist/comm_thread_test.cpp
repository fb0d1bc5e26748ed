#include "dist/comm_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/error.h"
#include "dist/peer_error.h"

namespace dtrain::dist {
namespace {

TEST(CommThread, RunsTasksInOrderOfSubmission) {
  CommThread thread("test");
  std::vector<int> order;
  std::vector<Work> works;
  for (int i = 0; i < 100; ++i) works.push_back(thread.submit([&order, i] { order.push_back(i); }));
  for (Work& work : works) work.wait();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(CommThread, AWaiterRunsWhatTheThreadHasNotBegunAndWhatIsBeforeIt) {
  CommThread thread("test");
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<int> order;
  std::atomic<int> ran = 0;
  int by_caller = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Work> works;
    for (int i = 0; i < 3; ++i) {
      works.push_back(thread.submit([&, i] {
        order.push_back(3 * round + i);
        by_caller += std::this_thread::get_id() == caller;
        ++ran;
      }));
    }
    works[1].wait();
    EXPECT_GE(ran, 3 * round + 2);
    works[2].wait();
    works[0].wait();
  }
  ASSERT_EQ(order.size(), 6000u);
  for (int i = 0; i < 6000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  EXPECT_GT(by_caller, 0) << "the thread cannot always be faster";
}

TEST(CommThread, WhatNoCallerWaitsForIsRunByTheThread) {
  CommThread thread("test");
  std::atomic<int> ran = 0;
  for (int round = 0; round < 200; ++round) {
    static_cast<void>(thread.submit([&] { ++ran; }));
    Work waited = thread.submit([&] { ++ran; });
    static_cast<void>(thread.submit([&] { ++ran; }));
    waited.wait();
  }
  while (!thread.idle()) std::this_thread::yield();
  EXPECT_EQ(ran, 600);
}

TEST(CommThread, BeginsWithWhatBelongsToTheThread) {
  std::thread::id begun, ran;
  CommThread thread("test", [&] { begun = std::this_thread::get_id(); });
  thread.submit([&] { ran = std::this_thread::get_id(); }).wait();
  EXPECT_EQ(begun, ran);
  EXPECT_NE(begun, std::this_thread::get_id());
}

TEST(CommThread, AFailureToBeginIsThatOfTheFirstTask) {
  bool ran = false;
  CommThread thread("test", [] { throw DeviceError("no such GPU"); });
  try {
    thread.submit([&] { ran = true; }).wait();
    FAIL() << "the task ran";
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("no such GPU"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(ran);
}

TEST(CommThread, WaitThrowsWhatTheTaskThrewAndLaterTasksDoNotRun) {
  CommThread thread("test");
  bool ran = false;
  Work bad = thread.submit([] { throw DataError("the cable is out"); });
  Work later = thread.submit([&] { ran = true; });
  EXPECT_THROW(bad.wait(), DataError);
  try {
    later.wait();
    FAIL() << "the task of a failed thread ran";
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what()).find("the cable is out"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(ran);
  EXPECT_THROW(thread.submit([] {}).wait(), CommError);
}

TEST(CommThread, FailEndsTheTaskThatWaits) {
  CommThread thread("test");
  Work waiting = thread.submit([&] {
    while (true) thread.throw_if_failed();
  });
  thread.fail("enough");
  EXPECT_THROW(waiting.wait(), CommError);
}

TEST(CommThread, KeepsTheRankThatFailed) {
  const auto peer_after = [](const std::function<void(CommThread&)>& fail) {
    CommThread thread("test");
    fail(thread);
    try {
      thread.throw_if_failed();
    } catch (const PeerError& error) {
      return error.peer();
    }
    return std::optional(-1);
  };
  const auto throwing = [](const auto& error) {
    return [error](CommThread& thread) {
      EXPECT_ANY_THROW(thread.submit([error] { throw error; }).wait());
    };
  };
  EXPECT_EQ(peer_after(throwing(PeerError("rank 3 has died", 3))), 3);
  EXPECT_EQ(peer_after(throwing(DataError("the cable is out"))), std::nullopt);
  EXPECT_EQ(peer_after([](CommThread& thread) { thread.fail("enough"); }), std::nullopt);
}

TEST(CommThread, TheDestructorDoesNotWaitForWorkThatNeverEnds) {
  Work waiting;
  {
    CommThread thread("test");
    waiting = thread.submit([&] {
      while (true) thread.throw_if_failed();
    });
  }
  EXPECT_THROW(waiting.wait(), CommError);
}

}  // namespace
}  // namespace dtrain::dist

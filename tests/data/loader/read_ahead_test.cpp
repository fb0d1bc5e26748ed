#include "data/loader/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>

namespace dtrain::data {
namespace {

struct Squares : ReadAhead::Job {
  Squares(int64_t number, int64_t items) : Job(items), number(number), results(static_cast<size_t>(items), -1) {}
  int64_t number;
  std::vector<int64_t> results;
};

void square(ReadAhead::Job& job, int64_t item, int) {
  static_cast<Squares&>(job).results[static_cast<size_t>(item)] = item * item;
}

// Jobs 0, 1, 2, ... of 0 to 9 items.
auto counting(int64_t& next, int64_t last) {
  return [&next, last]() -> std::unique_ptr<ReadAhead::Job> {
    if (next > last) return nullptr;
    const int64_t number = next++;
    return std::make_unique<Squares>(number, number % 10);
  };
}

TEST(ReadAhead, KeepsTheOrderAndDoesEachItem) {
  for (int threads : {1, 2, 5, 16}) {
    for (int depth : {1, 2, 7}) {
      int64_t next = 0;
      ReadAhead pool(threads, depth, {counting(next, 99), square});
      for (int64_t number = 0; number < 100; ++number) {
        pool.front();
        const auto job = pool.take();
        const auto& squares = static_cast<Squares&>(*job);
        ASSERT_EQ(squares.number, number);
        for (int64_t i = 0; i < job->items(); ++i) ASSERT_EQ(squares.results[static_cast<size_t>(i)], i * i);
      }
      EXPECT_EQ(pool.front_if_ready(), nullptr);
      EXPECT_EQ(pool.ready(), 0);
    }
  }
}

TEST(ReadAhead, ReadsNoFurtherAheadThanItsDepth) {
  std::atomic<int64_t> made = 0;
  std::latch three(3);
  ReadAhead pool(2, 3,
                 {[&]() -> std::unique_ptr<ReadAhead::Job> {
                    ++made;
                    return std::make_unique<Squares>(0, 1);
                  },
                  [&](ReadAhead::Job&, int64_t, int) {
                    if (made <= 3) three.count_down();
                  }});
  three.wait();
  EXPECT_EQ(made, 3);
}

TEST(ReadAhead, AnErrorComesWhenItsJobIsDueAndAgainUntilRestart) {
  int64_t next = 1;
  bool fail = true;
  ReadAhead pool(4, 5, {counting(next, 1000), [&](ReadAhead::Job& job, int64_t item, int thread) {
                          const int64_t number = static_cast<Squares&>(job).number;
                          if (fail && number == 9 && item >= 2)
                            throw std::runtime_error("item " + std::to_string(item));
                          square(job, item, thread);
                        }});
  for (int64_t number = 1; number < 9; ++number) {
    pool.front();
    pool.take();
  }
  for (int i = 0; i < 3; ++i) {
    try {
      pool.front();
      FAIL() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "item 2") << "the lowest, whichever thread was first";
    }
  }
  EXPECT_EQ(pool.front_if_ready(), nullptr);
  pool.restart([&](ReadAhead::Jobs jobs) {
    EXPECT_GE(jobs.size(), 1u);
    fail = false;
    next = 9;
  });
  EXPECT_EQ(static_cast<Squares&>(pool.front()).number, 9);
}

TEST(ReadAhead, AnErrorOfMakeIsThrownInItsTurn) {
  int made = 0;
  ReadAhead pool(2, 4,
                 {[&]() -> std::unique_ptr<ReadAhead::Job> {
                    if (++made == 2) throw std::runtime_error("no memory");
                    return std::make_unique<Squares>(made, 2);
                  },
                  square});
  pool.front();
  pool.take();
  EXPECT_THROW(pool.front(), std::runtime_error);
}

TEST(ReadAhead, WakeAsksMakeAgain) {
  std::atomic<bool> open = false;
  int64_t number = 0;
  ReadAhead pool(
      2, 4,
      {[&]() -> std::unique_ptr<ReadAhead::Job> { return open ? std::make_unique<Squares>(number++, 3) : nullptr; },
       square});
  EXPECT_EQ(pool.front_if_ready(), nullptr);
  open = true;
  pool.wake();
  EXPECT_EQ(static_cast<Squares&>(pool.front()).number, 0);
}

TEST(ReadAhead, LeavesAtOnceWithWorkLeft) {
  std::atomic<int64_t> done = 0;
  std::latch first(1);
  {
    ReadAhead pool(1, 2,
                   {[] { return std::make_unique<Squares>(0, 1000000); },
                    [&](ReadAhead::Job&, int64_t, int) {
                      if (++done == 1) first.count_down();
                    }});
    first.wait();
  }
  EXPECT_LT(done, 1000000);
}

}  // namespace
}  // namespace dtrain::data

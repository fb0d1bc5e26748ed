#include "data/loader/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>

namespace dtrain::data {
namespace {

struct Squares {
  Squares(int64_t number, int64_t items)
      : number(number), results(static_cast<size_t>(items), -1) {}
  int64_t items() const { return static_cast<int64_t>(results.size()); }
  int64_t number;
  std::vector<int64_t> results;
};
using Pool = ReadAhead<Squares>;

void square(Squares& job, int64_t item, Pool::Worker) {
  job.results[static_cast<size_t>(item)] = item * item;
}

// Jobs 0, 1, 2, ... of 0 to 9 items.
auto counting(int64_t& next, int64_t last) {
  return [&next, last]() -> std::unique_ptr<Squares> {
    if (next > last) return nullptr;
    const int64_t number = next++;
    return std::make_unique<Squares>(number, number % 10);
  };
}

TEST(ReadAhead, KeepsTheOrderAndProcessesEachItem) {
  for (int threads : {1, 2, 5, 16}) {
    for (int depth : {1, 2, 7}) {
      int64_t next = 0;
      Pool pool(threads, depth, {counting(next, 99), square});
      for (int64_t number = 0; number < 100; ++number) {
        pool.front();
        const auto job = pool.take();
        ASSERT_EQ(job->number, number);
        for (int64_t i = 0; i < job->items(); ++i)
          ASSERT_EQ(job->results[static_cast<size_t>(i)], i * i);
      }
      EXPECT_EQ(pool.front_if_ready(), nullptr);
      EXPECT_EQ(pool.ready(), 0);
    }
  }
}

// The consumer takes jobs as soon as they are ready, so all threads would be at work all the time.
void expect_that_half_do_some(int threads, int half) {
  constexpr int64_t kJobs = 1536;
  int64_t next = 0;
  std::mutex mutex;
  std::map<int64_t, std::set<int>> threads_of;  // by job
  Pool pool(threads, 3,
            {[&]() -> std::unique_ptr<Squares> {
               return next < kJobs ? std::make_unique<Squares>(next++, 40) : nullptr;
             },
             [&](Squares& job, int64_t item, Pool::Worker worker) {
               square(job, item, worker);
               const std::scoped_lock lock(mutex);
               threads_of[job.number].insert(worker.thread);
             }},
            /*halves=*/true);
  for (int64_t number = 0; number < kJobs; ++number) {
    ASSERT_EQ(pool.front().number, number);
    pool.take();
  }
  int by_half = 0;
  for (int64_t number = 0; number < kJobs; ++number) {
    if (!Pool::is_for_half(number)) continue;
    ++by_half;
    for (const int thread : threads_of.at(number))
      EXPECT_LT(thread, half) << "job " << number << " of " << threads;
  }
  EXPECT_EQ(by_half, 6) << "four of the first 128, one of each 512 later";
}

TEST(ReadAhead, LetsHalfOfTheThreadsDoAJobAloneNowAndThen) {
  expect_that_half_do_some(/*threads=*/1, /*half=*/1);
  expect_that_half_do_some(2, 1);
  expect_that_half_do_some(3, 1);
  expect_that_half_do_some(5, 2);
}

// How many threads are inside the items of job 20 at the same time; a thread waits there for the
// others, but not for long where `expected` are there.
int threads_together(int threads, bool halves, int expected) {
  constexpr int64_t kJob = 20;
  static_assert(Pool::is_for_half(kJob));
  int64_t next = 0;
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0, most = 0;
  Pool pool(threads, 3,
            {[&]() -> std::unique_ptr<Squares> {
               return next <= kJob ? std::make_unique<Squares>(next++, threads) : nullptr;
             },
             [&](Squares& job, int64_t, Pool::Worker) {
               if (job.number != kJob) return;
               std::unique_lock lock(mutex);
               most = std::max(most, ++inside);
               changed.notify_all();
               changed.wait_for(lock, std::chrono::seconds(5), [&] { return most >= expected; });
               --inside;
             }},
            halves);
  for (int64_t number = 0; number <= kJob; ++number) {
    pool.front();
    pool.take();
  }
  return most;
}

TEST(ReadAhead, AllThreadsDoEachJobUnlessHalvesAreAskedFor) {
  EXPECT_EQ(threads_together(3, /*halves=*/false, 3), 3);
  EXPECT_EQ(threads_together(5, /*halves=*/true, 2), 2) << "half of 5, rounded down";
}

TEST(ReadAhead, IsLimitedByItsDepth) {
  std::atomic<int64_t> made = 0;
  std::latch three(3);
  Pool pool(2, 3,
            {[&]() -> std::unique_ptr<Squares> {
               ++made;
               return std::make_unique<Squares>(0, 1);
             },
             [&](Squares&, int64_t, Pool::Worker) {
               if (made <= 3) three.count_down();
             }});
  three.wait();
  EXPECT_EQ(made, 3);
}

TEST(ReadAhead, FrontThrowsAnErrorInOrderUntilRestart) {
  int64_t next = 1;
  bool fail = true;
  Pool pool(4, 5, {counting(next, 1000), [&](Squares& job, int64_t item, Pool::Worker worker) {
                     const int64_t number = job.number;
                     if (fail && number == 9 && item >= 2)
                       throw std::runtime_error("item " + std::to_string(item));
                     square(job, item, worker);
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
      EXPECT_STREQ(error.what(), "item 2") << "the error of the lowest item";
    }
  }
  EXPECT_EQ(pool.front_if_ready(), nullptr);
  pool.restart([&](Pool::Jobs jobs) {
    EXPECT_GE(jobs.size(), 1u);
    fail = false;
    next = 9;
  });
  EXPECT_EQ(pool.front().number, 9);
}

TEST(ReadAhead, FrontThrowsAnErrorOfMakeInOrder) {
  int made = 0;
  Pool pool(2, 4,
            {[&]() -> std::unique_ptr<Squares> {
               if (++made == 2) throw std::runtime_error("no memory");
               return std::make_unique<Squares>(made, 2);
             },
             square});
  pool.front();
  pool.take();
  EXPECT_THROW(pool.front(), std::runtime_error);
}

TEST(ReadAhead, WakeCallsMakeAgain) {
  std::atomic<bool> open = false;
  int64_t number = 0;
  Pool pool(2, 4,
            {[&]() -> std::unique_ptr<Squares> {
               return open ? std::make_unique<Squares>(number++, 3) : nullptr;
             },
             square});
  EXPECT_EQ(pool.front_if_ready(), nullptr);
  open = true;
  pool.wake();
  EXPECT_EQ(pool.front().number, 0);
}

// A minute of work or more, for which the destructor does not wait.
struct LongJob {
  static constexpr int64_t kItems = 10'000'000'000;
  static int64_t items() { return kItems; }
};

TEST(ReadAhead, CanBeDestroyedWithWorkLeft) {
  std::atomic<int64_t> done = 0;
  std::latch first(1);
  {
    ReadAhead<LongJob> pool(1, 2,
                            {[] { return std::make_unique<LongJob>(); },
                             [&](LongJob&, int64_t, ReadAhead<LongJob>::Worker) {
                               if (++done == 1) first.count_down();
                             }});
    first.wait();
  }
  EXPECT_LT(done, LongJob::kItems);
}

}  // namespace
}  // namespace dtrain::data

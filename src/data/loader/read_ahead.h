#pragma once

// A thread pool that prepares jobs in order, ahead of their consumer. A job is a list of items, and
// several threads work on the same job: they claim runs of items of the earliest unfinished job, so
// that the next job is ready soon rather than many jobs late. Idle threads sleep.
//
// If it is asked for, now and then a job is done by half of the threads while the others rest, so
// that it can be measured whether the threads are in each other's way: while the consumer waits for
// jobs, all of them would always be at work.
//
// `Job` is any type with `int64_t items() const`, whose value must not change. Errors: front()
// throws what make() or work() threw, once that job is the first one (if several items of a job
// fail, the error of the lowest item). Thread-safety: one thread at a time calls the public
// methods, and it must not be a worker. Any thread may call waited() as well.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/clock.h"
#include "os/process_info.h"

namespace dtrain::data {

template <typename Job>
class ReadAhead {
 public:
  using Jobs = std::vector<std::unique_ptr<Job>>;

  // One job in 32 of the first ones, so that a short run knows soon, and one in 512 later. Such a
  // job takes twice as long, with an odd number of threads up to three times, so the rest costs at
  // most twice that share of the time, and nothing while jobs are made faster than they are taken.
  static constexpr bool is_for_half(int64_t job) { return job % (job < 128 ? 32 : 512) == 20; }
  // The threads that do such a job: fewer than all, so none where there is one.
  static constexpr int half_of(int threads) { return threads / 2; }

  struct Worker {
    int thread = 0;
    bool few = false;  // the item is of a job that half of the threads do, and the others rest
  };
  struct Functions {
    std::function<std::unique_ptr<Job>()>
        make;  // the next job; null: none until wake(). One call at a time
    std::function<void(Job&, int64_t item, Worker)> work;  // called by any worker, once per item
  };

  // `depth` is the largest number of jobs that are made and not yet taken. `halves`: now and then
  // half of the threads do a job alone. Borrows the clock.
  ReadAhead(int threads, int depth, Functions, bool halves = false, const Clock& = real_clock());
  ~ReadAhead();  // finishes the items in progress and starts no others

  Job& front();  // the first job; waits for it. Throws its error, at each call until restart()
  Job* front_if_ready() const;  // null if it is unfinished or failed
  std::unique_ptr<Job> take();  // removes the job that front() returned
  void wake();                  // call this when make() may return a job again
  int ready() const;            // number of finished jobs that are not taken

  struct Waited {          // seconds since construction, including waits in progress
    double for_front = 0;  // front() for the first job
    // The workers, all of them together, while `depth` jobs were made and all items claimed
    double for_room = 0;
  };
  Waited waited() const;

  // Stops the workers, passes the jobs that were not taken to `reset`, and continues. `reset` may
  // change what make() returns, for example to start from another position.
  void restart(const std::function<void(Jobs)>& reset);

 private:
  // A job and its progress. mutex_ guards all but the job's items.
  struct Slot {
    std::unique_ptr<Job> job;  // null: make() threw
    int64_t items = 0, claimed = 0, finished = 0;
    int64_t error_item = 0;
    std::exception_ptr error;
    bool by_half = false;
    bool complete() const { return finished == items; }
  };
  struct Claim {
    Slot* slot = nullptr;
    int64_t begin = 0, end = 0;
  };
  void run(std::stop_token, int thread);
  std::exception_ptr work_on(const Claim&, int thread, int64_t* item);
  void note_wait_for_room(int thread, bool waits);  // requires the lock
  Claim claim(int thread);  // requires the lock; slot is null if there is no work for it
  bool is_full() const { return static_cast<int>(slots_.size()) >= depth_; }  // requires the lock
  void make_job();

  const int depth_;
  const Functions functions_;
  mutable std::mutex mutex_;
  std::condition_variable_any work_;  // signals that there may be items to claim
  std::condition_variable done_;      // signals that a job is finished or that no thread is busy
  std::deque<Slot> slots_;            // a deque, so that changes at its ends keep references valid
  std::atomic<int> busy_ = 0;         // number of threads with a claim; changed under the lock
  bool exhausted_ = false;            // make() returned null
  int64_t jobs_made_ = 0;
  // When each wait that goes on began: room_since_ by worker.
  using Time = Clock::Steady::time_point;
  const Clock& clock_;
  Waited waited_;  // without the waits that go on
  std::optional<Time> front_since_;
  std::vector<std::optional<Time>> room_since_;
  std::atomic<bool> cancelled_ = false;
  const int thread_count_;
  const bool halves_;
  std::vector<std::jthread> threads_;  // last, because they use the members above
};

template <typename Job>
ReadAhead<Job>::ReadAhead(int threads, int depth, Functions functions, bool halves,
                          const Clock& clock)
    : depth_(std::max(1, depth)),
      functions_(std::move(functions)),
      clock_(clock),
      room_since_(static_cast<size_t>(std::max(1, threads))),
      thread_count_(std::max(1, threads)),
      halves_(halves && half_of(thread_count_) > 0) {
  for (int i = 0; i < thread_count_; ++i) {
    threads_.emplace_back([this, i](std::stop_token stop) { run(stop, i); });
  }
}

template <typename Job>
ReadAhead<Job>::~ReadAhead() {
  cancelled_ = true;
  for (std::jthread& thread : threads_)
    thread.request_stop();  // ask all first; the destructors of the members then join
}

template <typename Job>
void ReadAhead<Job>::run(std::stop_token stop, int thread) {
  name_this_thread(kReaderThread);
  std::unique_lock lock(mutex_);
  while (true) {
    Claim mine;
    const auto finds_work = [&] {
      if (!cancelled_) mine = claim(thread);
      note_wait_for_room(thread, mine.slot == nullptr && is_full());
      return mine.slot != nullptr;
    };
    work_.wait(lock, stop, finds_work);
    if (stop.stop_requested()) return;
    ++busy_;
    lock.unlock();
    int64_t item = mine.begin;
    const std::exception_ptr error = work_on(mine, thread, &item);
    lock.lock();
    --busy_;
    Slot& slot = *mine.slot;
    slot.finished += mine.end - mine.begin;
    if (error && (!slot.error || item < slot.error_item)) {
      slot.error = error;
      slot.error_item = item;
    }
    if (slot.complete() || busy_ == 0) done_.notify_all();
    if (slot.complete() && slot.by_half) work_.notify_all();
  }
}

template <typename Job>
void ReadAhead<Job>::note_wait_for_room(int thread, bool waits) {
  std::optional<Time>& since = room_since_[static_cast<size_t>(thread)];
  if (waits == since.has_value()) return;
  const auto now = clock_.now();
  if (!waits) waited_.for_room += seconds_between(*since, now);
  since = waits ? std::optional(now) : std::nullopt;
}

template <typename Job>
typename ReadAhead<Job>::Waited ReadAhead<Job>::waited() const {
  const std::scoped_lock lock(mutex_);
  const auto now = clock_.now();
  Waited all = waited_;
  if (front_since_) all.for_front += seconds_between(*front_since_, now);
  for (const auto& since : room_since_) all.for_room += since ? seconds_between(*since, now) : 0;
  return all;
}

// Called without the lock. Sets `item` to the item at which it stopped.
template <typename Job>
std::exception_ptr ReadAhead<Job>::work_on(const Claim& mine, int thread, int64_t* item) {
  // The others may still be busy with the job before.
  const auto few = [&] {
    return mine.slot->by_half && busy_.load(std::memory_order_relaxed) <= half_of(thread_count_);
  };
  try {
    for (; *item < mine.end && !cancelled_.load(std::memory_order_relaxed); ++*item) {
      functions_.work(*mine.slot->job, *item, {thread, few()});
    }
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

template <typename Job>
typename ReadAhead<Job>::Claim ReadAhead<Job>::claim(int thread) {
  while (true) {
    for (Slot& slot : slots_) {
      if (slot.by_half && !slot.complete() && thread >= half_of(thread_count_)) return {};
      const int64_t left = slot.items - slot.claimed;
      if (left == 0) continue;
      // Half a thread's share per claim: few locks, and no thread waits long for the slowest one.
      const int64_t run = thread_count_ == 1 ? left : (slot.items - 1) / (2 * thread_count_) + 1;
      const int64_t begin = slot.claimed;
      slot.claimed += std::min(run, left);
      return {&slot, begin, slot.claimed};
    }
    if (exhausted_ || is_full()) return {};
    make_job();
  }
}

template <typename Job>
void ReadAhead<Job>::make_job() {
  Slot slot;
  try {
    slot.job = functions_.make();
    exhausted_ = !slot.job;
    if (exhausted_) return;
    slot.items = slot.job->items();
  } catch (...) {
    slot.error = std::current_exception();
    exhausted_ = true;
  }
  slot.by_half = halves_ && is_for_half(jobs_made_++);
  if (slot.items == 0) done_.notify_all();
  if (slot.items > 1) work_.notify_all();
  slots_.push_back(std::move(slot));
}

template <typename Job>
Job& ReadAhead<Job>::front() {
  std::unique_lock lock(mutex_);
  const auto is_ready = [&] { return !slots_.empty() && slots_.front().complete(); };
  if (!is_ready()) {
    front_since_ = clock_.now();
    done_.wait(lock, is_ready);
    waited_.for_front += seconds_between(*std::exchange(front_since_, std::nullopt), clock_.now());
  }
  if (slots_.front().error) std::rethrow_exception(slots_.front().error);
  return *slots_.front().job;
}

template <typename Job>
Job* ReadAhead<Job>::front_if_ready() const {
  const std::scoped_lock lock(mutex_);
  if (slots_.empty() || !slots_.front().complete() || slots_.front().error) return nullptr;
  return slots_.front().job.get();
}

template <typename Job>
std::unique_ptr<Job> ReadAhead<Job>::take() {
  std::unique_ptr<Job> job;
  {
    const std::scoped_lock lock(mutex_);
    DTRAIN_CHECK(!slots_.empty() && slots_.front().complete(), "take() before front()");
    job = std::move(slots_.front().job);
    slots_.pop_front();
  }
  work_.notify_all();
  return job;
}

template <typename Job>
void ReadAhead<Job>::wake() {
  {
    const std::scoped_lock lock(mutex_);
    exhausted_ = false;
  }
  work_.notify_all();
}

template <typename Job>
int ReadAhead<Job>::ready() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int>(std::ranges::count_if(
      slots_, [](const Slot& slot) { return slot.complete() && !slot.error; }));
}

template <typename Job>
void ReadAhead<Job>::restart(const std::function<void(Jobs)>& reset) {
  {
    std::unique_lock lock(mutex_);
    cancelled_ = true;
    done_.wait(lock, [&] { return busy_ == 0; });
    Jobs jobs;
    for (Slot& slot : std::exchange(slots_, {})) {
      if (slot.job) jobs.push_back(std::move(slot.job));
    }
    reset(std::move(jobs));
    exhausted_ = false;
    cancelled_ = false;
  }
  work_.notify_all();
}

}  // namespace dtrain::data

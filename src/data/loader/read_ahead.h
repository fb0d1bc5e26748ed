#pragma once

// Jobs that are made in order, each worked on by several threads at once, and taken in order. A job is a list of items;
// threads claim runs of items of the earliest unfinished job, so that one batch is ready soon instead of many late.
// Waiting threads sleep.
//
// `Job` is any type with `int64_t items() const`, constant from the moment that it is made. Errors: what make() or
// work() throws is thrown by front() when that job is the first (of several errors in a job, the one of the lowest
// item, whichever thread was first). Thread-safety: one thread takes; it must not be one of the workers.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"

namespace dtrain::data {

template <typename Job>
class ReadAhead {
 public:
  using Jobs = std::vector<std::unique_ptr<Job>>;

  struct Functions {
    std::function<std::unique_ptr<Job>()> make;  // the next job, or null: none before wake(). One call at a time
    std::function<void(Job&, int64_t item, int thread)> work;  // from any worker; each item once
  };

  // At most `depth` jobs are made and not taken.
  ReadAhead(int threads, int depth, Functions);
  ~ReadAhead();  // items in work are finished, no more are begun

  Job& front();                 // waits; throws the job's error (again at each call, until restart())
  Job* front_if_ready() const;  // null also if that job has an error
  std::unique_ptr<Job> take();  // the job that front() returned
  void wake();                  // make() may have a job again
  int ready() const;            // finished and not taken
  // Stops, passes all jobs that were not taken to `reset`, which may change what make() returns, and goes on.
  void restart(const std::function<void(Jobs)>& reset);

 private:
  // A job and how far it is. All but the job's items is guarded by mutex_.
  struct Slot {
    std::unique_ptr<Job> job;  // null: make() threw
    int64_t items = 0, claimed = 0, finished = 0;
    int64_t error_item = 0;
    std::exception_ptr error;
    bool complete() const { return finished == items; }
  };
  struct Claim {
    Slot* slot = nullptr;
    int64_t begin = 0, end = 0;
  };
  void run(std::stop_token, int thread);
  std::exception_ptr work_on(const Claim&, int thread, int64_t* item);
  Claim claim();  // under the lock; slot is null if there is nothing to do
  void make_job();

  const int depth_;
  const Functions functions_;
  mutable std::mutex mutex_;
  std::condition_variable_any work_;  // there may be something to claim
  std::condition_variable done_;      // a job is finished, or the last busy thread is idle
  std::deque<Slot> slots_;            // a deque: references stay valid while others are added and removed at its ends
  int busy_ = 0;                      // threads with a claim
  bool exhausted_ = false;            // make() returned null
  std::atomic<bool> cancelled_ = false;
  const int thread_count_;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

template <typename Job>
ReadAhead<Job>::ReadAhead(int threads, int depth, Functions functions)
    : depth_(std::max(1, depth)), functions_(std::move(functions)), thread_count_(std::max(1, threads)) {
  for (int i = 0; i < thread_count_; ++i) {
    threads_.emplace_back([this, i](std::stop_token stop) { run(stop, i); });
  }
}

template <typename Job>
ReadAhead<Job>::~ReadAhead() {
  cancelled_ = true;
  for (std::jthread& thread : threads_) thread.request_stop();  // all at once; the members' destructors join
}

template <typename Job>
void ReadAhead<Job>::run(std::stop_token stop, int thread) {
  std::unique_lock lock(mutex_);
  while (true) {
    Claim mine;
    work_.wait(lock, stop, [&] { return !cancelled_ && (mine = claim()).slot != nullptr; });
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
  }
}

// Without the lock. `item` is where it ended.
template <typename Job>
std::exception_ptr ReadAhead<Job>::work_on(const Claim& mine, int thread, int64_t* item) {
  try {
    for (; *item < mine.end && !cancelled_.load(std::memory_order_relaxed); ++*item) {
      functions_.work(*mine.slot->job, *item, thread);
    }
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

template <typename Job>
typename ReadAhead<Job>::Claim ReadAhead<Job>::claim() {
  while (true) {
    for (Slot& slot : slots_) {
      const int64_t left = slot.items - slot.claimed;
      if (left == 0) continue;
      // Runs of half a thread's share: little locking, and no thread waits long for the slowest one.
      const int64_t run = thread_count_ == 1 ? left : (slot.items - 1) / (2 * thread_count_) + 1;
      const int64_t begin = slot.claimed;
      slot.claimed += std::min(run, left);
      return {&slot, begin, slot.claimed};
    }
    if (exhausted_ || static_cast<int>(slots_.size()) >= depth_) return {};
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
  if (slot.items == 0) done_.notify_all();
  if (slot.items > 1) work_.notify_all();
  slots_.push_back(std::move(slot));
}

template <typename Job>
Job& ReadAhead<Job>::front() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !slots_.empty() && slots_.front().complete(); });
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
  return static_cast<int>(
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.complete() && !slot.error; }));
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

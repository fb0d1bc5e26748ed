#pragma once

// Jobs made in order, each worked on by several threads at once, taken in order. A job is a list of items; threads
// claim runs of items of the earliest unfinished job, so that one batch is ready soon instead of many late. It knows
// nothing of batches, files or tensors. Waiting threads sleep. Errors: what work() or make() throws is thrown by
// front(), when that job's turn has come (of several, the one of the lowest item, whichever thread was first).
// Thread-safety: one thread takes; it must not be one of the workers.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace dtrain::data {

class ReadAhead {
 public:
  class Job {
   public:
    explicit Job(int64_t items) : items_(items) {}
    virtual ~Job() = default;
    int64_t items() const { return items_; }

   private:
    friend class ReadAhead;
    int64_t items_, claimed_ = 0, finished_ = 0;  // all that follows is guarded by ReadAhead::mutex_
    int64_t error_item_ = 0;
    std::exception_ptr error_;
  };
  using Jobs = std::deque<std::unique_ptr<Job>>;

  struct Functions {
    std::function<std::unique_ptr<Job>()> make;  // the next job, or null: none before wake(). One call at a time
    std::function<void(Job&, int64_t item, int thread)> work;  // from any worker; each item once
  };

  // At most `depth` jobs are made and not taken.
  ReadAhead(int threads, int depth, Functions);
  ~ReadAhead();  // the items in work are finished, no more are begun

  Job& front();                 // waits; throws the job's error (again at each call, until restart())
  Job* front_if_ready() const;  // null also if that job has an error
  std::unique_ptr<Job> take();  // the job that front() returned
  void wake();                  // make() may have a job again
  int ready() const;            // finished and not taken
  // Stops, hands over all jobs not taken, lets `reset` change what make() will return, and goes on.
  void restart(const std::function<void(Jobs)>& reset);

 private:
  struct Claim {
    Job* job = nullptr;
    int64_t begin = 0, end = 0;
  };
  void run(std::stop_token, int thread);
  Claim claim();  // under the lock; job is null if there is nothing to do
  void make_job();

  const int depth_;
  const Functions functions_;
  mutable std::mutex mutex_;
  std::condition_variable_any work_;  // there may be something to claim
  std::condition_variable done_;      // a job is finished, or the last busy thread is idle
  Jobs jobs_;
  int busy_ = 0;            // threads with a claim
  bool exhausted_ = false;  // make() returned null
  std::atomic<bool> cancelled_ = false;
  const int thread_count_;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

}  // namespace dtrain::data

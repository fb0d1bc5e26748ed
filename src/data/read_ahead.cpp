#include "data/read_ahead.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace dtrain::data {

ReadAhead::ReadAhead(int threads, int depth, Functions functions)
    : depth_(std::max(1, depth)), functions_(std::move(functions)), thread_count_(std::max(1, threads)) {
  for (int i = 0; i < thread_count_; ++i) {
    threads_.emplace_back([this, i](std::stop_token stop) { run(stop, i); });
  }
}

ReadAhead::~ReadAhead() {
  cancelled_ = true;
  for (std::jthread& thread : threads_) thread.request_stop();  // all at once; the members' destructors join
}

void ReadAhead::run(std::stop_token stop, int thread) {
  std::unique_lock lock(mutex_);
  while (true) {
    Claim mine;
    work_.wait(lock, stop, [&] { return !cancelled_ && (mine = claim()).job != nullptr; });
    if (stop.stop_requested()) return;
    ++busy_;
    lock.unlock();
    std::exception_ptr error;
    int64_t item = mine.begin;
    try {
      for (; item < mine.end && !cancelled_.load(std::memory_order_relaxed); ++item) {
        functions_.work(*mine.job, item, thread);
      }
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy_;
    Job& job = *mine.job;
    job.finished_ += mine.end - mine.begin;
    if (error && (!job.error_ || item < job.error_item_)) {
      job.error_ = error;
      job.error_item_ = item;
    }
    if (job.finished_ == job.items_ || busy_ == 0) done_.notify_all();
  }
}

ReadAhead::Claim ReadAhead::claim() {
  while (true) {
    for (auto& job : jobs_) {
      const int64_t left = job->items_ - job->claimed_;
      if (left == 0) continue;
      // Runs of half a thread's share: little locking, and no thread waits long for the slowest one.
      const int64_t run = thread_count_ == 1 ? left : (job->items_ - 1) / (2 * thread_count_) + 1;
      const int64_t begin = job->claimed_;
      job->claimed_ += std::min(run, left);
      return {job.get(), begin, job->claimed_};
    }
    if (exhausted_ || static_cast<int>(jobs_.size()) >= depth_) return {};
    make_job();
  }
}

void ReadAhead::make_job() {
  std::unique_ptr<Job> job;
  try {
    job = functions_.make();
    if (!job) {
      exhausted_ = true;
      return;
    }
  } catch (...) {
    job = std::make_unique<Job>(0);
    job->error_ = std::current_exception();
    exhausted_ = true;
  }
  if (job->items_ == 0) done_.notify_all();
  if (job->items_ > 1) work_.notify_all();
  jobs_.push_back(std::move(job));
}

ReadAhead::Job& ReadAhead::front() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !jobs_.empty() && jobs_.front()->finished_ == jobs_.front()->items_; });
  if (jobs_.front()->error_) std::rethrow_exception(jobs_.front()->error_);
  return *jobs_.front();
}

ReadAhead::Job* ReadAhead::front_if_ready() const {
  std::scoped_lock lock(mutex_);
  if (jobs_.empty()) return nullptr;
  Job& job = *jobs_.front();
  return job.finished_ == job.items_ && !job.error_ ? &job : nullptr;
}

std::unique_ptr<ReadAhead::Job> ReadAhead::take() {
  std::unique_ptr<Job> job;
  {
    std::scoped_lock lock(mutex_);
    DTRAIN_CHECK(!jobs_.empty() && jobs_.front()->finished_ == jobs_.front()->items_, "take() before front()");
    job = std::move(jobs_.front());
    jobs_.pop_front();
  }
  work_.notify_all();
  return job;
}

void ReadAhead::wake() {
  {
    std::scoped_lock lock(mutex_);
    exhausted_ = false;
  }
  work_.notify_all();
}

int ReadAhead::ready() const {
  std::scoped_lock lock(mutex_);
  return static_cast<int>(std::count_if(jobs_.begin(), jobs_.end(),
                                        [](const auto& job) { return job->finished_ == job->items_ && !job->error_; }));
}

void ReadAhead::restart(const std::function<void(Jobs)>& reset) {
  {
    std::unique_lock lock(mutex_);
    cancelled_ = true;
    done_.wait(lock, [&] { return busy_ == 0; });
    reset(std::exchange(jobs_, {}));
    exhausted_ = false;
    cancelled_ = false;
  }
  work_.notify_all();
}

}  // namespace dtrain::data

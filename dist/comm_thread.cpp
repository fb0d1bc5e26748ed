#include "dist/comm_thread.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

#include "dist/peer_error.h"
#include "os/process_info.h"
#include "text/strings.h"

namespace dtrain::dist {

class CommThread::Queue {
 public:
  struct Item {
    std::function<void()> task;
    std::exception_ptr error;
    TimeSpan ran;
    bool done = false;
  };

  Queue(std::string name, bool waiters_run_tasks)
      : name_(std::move(name)), waiters_run_tasks_(waiters_run_tasks) {}

  std::shared_ptr<Item> add(std::function<void()> task) {
    auto item = std::make_shared<Item>();
    item->task = std::move(task);
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(item);
    }
    arrived_.notify_one();
    return item;
  }

  void finish(const Item& item) {
    std::unique_lock lock(mutex_);
    while (!item.done) {
      if (waiters_run_tasks_ && can_run()) {
        run_next(lock);
      } else {
        done_.wait(lock);
      }
    }
    const bool more = can_run();
    lock.unlock();
    if (more) arrived_.notify_one();  // the thread may have slept again while this one ran tasks
    if (item.error) std::rethrow_exception(item.error);
  }

  // On the thread, until stop().
  void run_all() {
    std::unique_lock lock(mutex_);
    while (true) {
      arrived_.wait(lock, [this] { return can_run() || (stopping_ && items_.empty()); });
      if (items_.empty()) return;
      run_next(lock);
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    arrived_.notify_one();
  }

  void fail(std::string_view reason, std::optional<int> peer) noexcept {
    const std::lock_guard lock(mutex_);
    if (failed()) return;
    reason_ = reason;
    peer_ = peer;
    failed_.store(true, std::memory_order_release);
  }

  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }

  void throw_if_failed() const {
    if (!failed()) return;
    const std::lock_guard lock(mutex_);
    throw PeerError(str("the ", name_, " communicator can no longer be used: ", reason_), peer_);
  }

  bool idle() const {
    const std::lock_guard lock(mutex_);
    return items_.empty() && !running_;
  }

 private:
  bool can_run() const { return !items_.empty() && !running_; }

  void run_next(std::unique_lock<std::mutex>& lock) {
    const std::shared_ptr<Item> item = std::move(items_.front());
    items_.pop_front();
    running_ = true;
    lock.unlock();
    try {
      throw_if_failed();
      item->ran.began = trace::now();
      item->task();
      item->ran.ended = trace::now();
    } catch (const std::exception& error) {
      fail(error.what(), peer_of(error));
      item->error = std::current_exception();
    }
    item->task = nullptr;  // releases its tensors before the waiter continues
    lock.lock();
    running_ = false;
    item->done = true;
    done_.notify_all();
  }

  const std::string name_;
  const bool waiters_run_tasks_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_, done_;  // for the thread; for waiters
  std::deque<std::shared_ptr<Item>> items_;
  std::string reason_;
  std::optional<int> peer_;
  bool running_ = false;  // a thread runs a task
  bool stopping_ = false;
  std::atomic<bool> failed_ = false;
};

CommThread::CommThread(std::string name, std::function<void()> begin)
    : queue_(std::make_shared<Queue>(std::move(name), /*waiters_run_tasks=*/!begin)),
      thread_([queue = queue_, begin = std::move(begin)] {
        name_this_thread(kCommThread);
        try {
          if (begin) begin();
        } catch (const std::exception& error) {
          queue->fail(error.what(), peer_of(error));
        }
        queue->run_all();
      }) {}

CommThread::~CommThread() {
  fail("it was destroyed");
  queue_->stop();
  thread_.join();
}

Work CommThread::submit(std::function<void()> task) {
  return Work([queue = queue_, item = queue_->add(std::move(task))] {
    queue->finish(*item);
    return std::optional(item->ran);
  });
}

void CommThread::fail(std::string_view reason, std::optional<int> peer) noexcept {
  queue_->fail(reason, peer);
}
bool CommThread::failed() const noexcept { return queue_->failed(); }
bool CommThread::idle() const { return queue_->idle(); }
void CommThread::throw_if_failed() const { queue_->throw_if_failed(); }

}  // namespace dtrain::dist

#pragma once

// The thread on which a communicator's operations run, one after the other in the order of issue. The first task that
// throws, or fail(), ends it permanently: queued and later tasks do not run, and their Work throws CommError with the
// reason. Thread-safety: all methods may be called from any thread.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "dist/communicator.h"

namespace dtrain::dist {

class CommThread {
 public:
  // `name`: of the communicator, for messages. `begin` runs first on the thread, for what belongs to a thread, such as
  // its current GPU; a failure of it is that of the first task.
  explicit CommThread(std::string name, std::function<void()> begin = {});
  ~CommThread();  // fails what is queued; waits until the running task has noticed or ended
  CommThread(const CommThread&) = delete;
  CommThread& operator=(const CommThread&) = delete;

  Work submit(std::function<void()> task);
  void fail(std::string_view reason) noexcept;
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  // A task that waits for other ranks calls this repeatedly while it waits.
  void throw_if_failed() const;

 private:
  struct Item {
    std::function<void()> task;
    std::promise<void> promise;
  };
  void run(const std::function<void()>& begin);

  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Item> queue_;
  std::string reason_;
  bool stopping_ = false;
  std::atomic<bool> failed_ = false;
  std::thread thread_;
};

}  // namespace dtrain::dist

#include "dist/comm_thread.h"

#include "core/error.h"
#include "core/strings.h"
#include "core/thread_name.h"

namespace dtrain::dist {

CommThread::CommThread(std::string name, std::function<void()> begin)
    : name_(std::move(name)), thread_([this, begin = std::move(begin)] { run(begin); }) {}

CommThread::~CommThread() {
  fail("it was destroyed");
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

Work CommThread::submit(std::function<void()> task) {
  Item item{std::move(task), {}};
  std::shared_future<void> done = item.promise.get_future().share();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
  }
  arrived_.notify_one();
  return Work([done = std::move(done)] { done.get(); });
}

void CommThread::fail(std::string_view reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed()) return;
  reason_ = reason;
  failed_.store(true, std::memory_order_release);
}

void CommThread::throw_if_failed() const {
  if (!failed()) return;
  const std::lock_guard lock(mutex_);
  throw CommError(str("the ", name_, " communicator can no longer be used: ", reason_));
}

void CommThread::run(const std::function<void()>& begin) {
  name_this_thread(kCommThread);
  try {
    if (begin) begin();
  } catch (const std::exception& error) {
    fail(error.what());
  }
  while (true) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [this] { return !queue_.empty() || stopping_; });
      if (queue_.empty()) return;
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    try {
      throw_if_failed();
      item.task();
      item.task = nullptr;  // releases its tensors before the waiter continues
      item.promise.set_value();
    } catch (const std::exception& error) {
      fail(error.what());
      item.promise.set_exception(std::current_exception());
    }
  }
}

}  // namespace dtrain::dist

#pragma once

// The thread on which a communicator's operations run, one after the other in the order of issue,
// so that they overlap with what the caller does. A caller that waits for an operation which the
// thread has not begun runs it itself, and those before it: that saves two switches of threads,
// which take longer than a small operation.
//
// The first task that throws, or fail(), ends the thread permanently: queued and later tasks do not
// run, and their Work throws PeerError with the reason. Thread-safety: all methods may be called
// from any thread.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "dist/communicator.h"

namespace dtrain::dist {

class CommThread {
 public:
  // `name`: of the communicator, for messages. `begin` runs first on the thread, for what belongs
  // to a thread, such as its current GPU; a failure of it is that of the first task. With it, all
  // tasks run on the thread.
  explicit CommThread(std::string name, std::function<void()> begin = {});
  ~CommThread();  // fails what is queued; waits until the running task has noticed or ended
  CommThread(const CommThread&) = delete;
  CommThread& operator=(const CommThread&) = delete;

  Work submit(std::function<void()> task);
  void fail(std::string_view reason, std::optional<int> peer = std::nullopt) noexcept;
  bool failed() const noexcept;
  bool idle() const;  // nothing is queued, and nothing runs
  // A task that waits for other ranks calls this repeatedly while it waits.
  void throw_if_failed() const;

 private:
  class Queue;
  std::shared_ptr<Queue> queue_;  // Works outlive the thread
  std::thread thread_;
};

}  // namespace dtrain::dist

#pragma once

// The signals that ask a supervisor to stop its job, and SIGUSR2, as a queue: a loop that has other
// things to wait for takes them out, so that nothing happens inside a handler.

#include <optional>

#include "os/file_descriptor.h"

namespace dtrain::supervisor {

// While it lives, SIGTERM, SIGINT, SIGHUP (not under nohup), SIGUSR1 and SIGUSR2 are queued instead
// of ending the process. To be made before the process has other threads, which inherit the mask;
// children made by ChildProcess do not. Thread-safety: none.
class SignalQueue {
 public:
  SignalQueue();              // Error
  std::optional<int> next();  // the number of the next one, without waiting

 private:
  FileDescriptor file_;
};

}  // namespace dtrain::supervisor

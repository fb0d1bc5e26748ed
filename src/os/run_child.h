#pragma once

// Runs another program until it ends, or until it takes too much memory or time: a measurement that
// may run out of memory then ends that process alone. Thread-safety: any thread.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtrain {

struct ChildLimits {
  double seconds = 3600;
  int64_t resident_bytes = INT64_MAX;  // looked at every few milliseconds
};

struct ChildEnd {
  enum class Why { kExited, kSignaled, kTooLong, kTooLarge, kStopped };
  Why why = Why::kExited;
  int code = 0;             // exit code, or the number of the signal
  std::string output = {};  // standard output; the first 1 MiB
  std::string errors = {};  // standard error; the last 16 KiB
};

// `command`, `environment` and `input` as of ChildProcess (child_process.h), and its Errors. `stop`
// is asked every few milliseconds; true ends the child (kStopped).
ChildEnd run_child(const std::vector<std::string>& command,
                   const std::vector<std::string>& environment, const std::string& input,
                   const ChildLimits&, const std::function<bool()>& stop);

}  // namespace dtrain

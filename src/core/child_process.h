#pragma once

// Runs another program until it ends, or until it takes too much memory or time: a measurement that may run out of
// memory then ends that process alone. The child is made by posix_spawn(), which copies neither memory nor locks of
// this process, so that this works beside threads, MPI and CUDA, where a fork does not.
//
// The child has a process group of its own: Ctrl-C reaches this process, which decides. Thread-safety: any thread.

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

// `command`: the path of the program and its arguments. `environment`: NAME=VALUE. `input`: what it reads from its
// standard input, up to 64 KiB (Error). `stop` is asked every few milliseconds; true ends the child (kStopped). Error
// if the program cannot be started.
ChildEnd run_child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                   const std::string& input, const ChildLimits&, const std::function<bool()>& stop);

// For the child, at its beginning: from now on it ends when its parent does, and is the first that the kernel ends
// where memory is short. False if process `parent` has ended already.
bool end_with_parent(int64_t parent);

}  // namespace dtrain

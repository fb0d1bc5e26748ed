#pragma once

// Another program, as a child of this process whose output is read while it runs. It is made by
// posix_spawn(), which copies neither memory nor locks of this process: this works beside threads,
// MPI and CUDA, where a fork does not.
//
// The child has a process group of its own: Ctrl-C reaches this process, which decides.
// Thread-safety: none; each child may have a thread of its own.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "os/file_descriptor.h"

namespace dtrain {

class ChildProcess {
 public:
  // `command`: the program, which is looked up in PATH unless it has a slash, and its arguments.
  // `environment`: NAME=VALUE. `input`: what it reads from its standard input, up to 64 KiB
  // (Error). Error if it cannot be started.
  ChildProcess(const std::vector<std::string>& command, const std::vector<std::string>& environment,
               std::string_view input = {});
  ~ChildProcess();  // calls kill() if the program has not ended
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  using Take = std::function<void(std::string_view bytes, bool is_error)>;
  // Gives `take` what was printed, and waits at most so long for it. True: the program has ended,
  // and all that it has printed was taken; what it had started and left behind in its group is
  // ended then.
  bool look(int milliseconds, const Take& take);

  void signal(int number) noexcept;  // to the program alone
  void kill(const Take& take = {});  // it and its group, at once; takes what is left of the output

  int status() const { return status_; }  // from waitpid(); valid once the program has ended
  int64_t resident_bytes() const;

 private:
  bool has_ended(int options);
  bool read_ready(int milliseconds, const Take& take);
  void drain(const Take& take);

  int process_ = -1;
  FileDescriptor out_, error_;
  int status_ = 0;
  bool ended_ = false;
};

// The last line of a program's output that says something; of one that failed it is mostly
// why. Pure.
std::string last_line(std::string_view output);

// For the child, at its beginning: from now on it ends when its parent does, and is the first that
// the kernel ends where memory is short. False if process `parent` has ended already.
bool end_with_parent(int64_t parent);

}  // namespace dtrain

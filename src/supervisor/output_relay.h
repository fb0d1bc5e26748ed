#pragma once

// Between this process and who reads its output. A pipe or a terminal whose reader has stopped (a
// pager, Ctrl-S, a stopped `tee`) blocks whoever writes to it; a supervisor that blocks passes on
// no signals and restarts nothing. While an OutputRelay lives, stdout and stderr of this process
// are pipes that one thread always empties, into memory, and another thread for each original file
// writes to it as fast as it takes that.
//
// Thread-safety: any thread may print. One relay at a time. Requires that SIGPIPE is ignored.

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

#include "os/file_descriptor.h"

namespace dtrain::supervisor {

class OutputRelay {
 public:
  // What is printed while this number of bytes waits for a file is left out, and a line says so.
  static constexpr size_t kMostWaiting = 8 << 20;

  OutputRelay();  // Error if there are no pipes or threads
  // puts the files back, and waits as long as the readers take something at least every two seconds
  ~OutputRelay();
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;

 private:
  class Outlet;  // an original file, what waits for it, and the thread that writes

  void start();
  void put_files_back();
  void empty_pipes();

  std::array<FileDescriptor, 2> files_;             // the original stdout and stderr
  std::array<FileDescriptor, 2> pipes_;             // what is printed
  std::array<std::shared_ptr<Outlet>, 2> outlets_;  // one for both if they are the same file
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace dtrain::supervisor

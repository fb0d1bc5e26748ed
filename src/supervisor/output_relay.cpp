#include "supervisor/output_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "os/process_info.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr int kBetweenLooks = 200;  // ms: at the end a child may still hold a pipe open
constexpr auto kMostPatience = std::chrono::seconds(2);
constexpr size_t kPiece = 16 << 10;  // bytes of a read or a write

void check(bool good, const char* what) {
  if (!good) throw Error(str("cannot ", what, " for the output: ", std::strerror(errno)));
}

void flush() {
  std::cout.flush();
  std::fflush(stdout);
  std::fflush(stderr);
}

bool are_same(int one, int other) {
  struct stat a {
  }, b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

// std::terminate() ends the process before the threads could pass its message on: then the files
// have to be back.
std::array<std::atomic<int>, 2> files_at_terminate = {-1, -1};
std::terminate_handler next_handler = nullptr;

void put_back_and_terminate() {
  for (int i = 0; i < 2; ++i) {
    if (files_at_terminate[static_cast<size_t>(i)] >= 0) {
      ::dup2(files_at_terminate[static_cast<size_t>(i)], i + STDOUT_FILENO);
    }
  }
  next_handler();
}

}  // namespace

// Its thread may outlive the relay, where the output is no longer read: it shares the ownership.
class OutputRelay::Outlet {
 public:
  explicit Outlet(FileDescriptor file) : file_(std::move(file)) {}

  void add(std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    if (writing_ + waiting_.size() + bytes.size() > kMostWaiting) {
      left_out_ += bytes.size();
      return;
    }
    note_what_was_left_out();
    waiting_ += bytes;
    changed_.notify_all();
  }

  void end() {
    const std::lock_guard lock(mutex_);
    note_what_was_left_out();
    ended_ = true;
    changed_.notify_all();
  }

  // False: the reader has taken nothing for too long.
  bool wait_until_written() {
    std::unique_lock lock(mutex_);
    taken_ = std::max(taken_, std::chrono::steady_clock::now());
    while (!done_) {
      const Time until = taken_ + kMostPatience;
      if (changed_.wait_until(lock, until) == std::cv_status::timeout &&
          taken_ + kMostPatience <= until)
        return done_;
    }
    return true;
  }

  void write_all() {
    name_this_thread(kServiceThread);
    // Of a terminal with `stty tostop`: a background process then writes all the same
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
      if (waiting_.empty()) break;
      const std::string batch = std::exchange(waiting_, {});
      writing_ = batch.size();
      for (size_t at = 0; at < batch.size();) {
        lock.unlock();
        const ssize_t count =
            ::write(file_.get(), batch.data() + at, std::min(batch.size() - at, kPiece));
        const int code = count < 0 ? errno : 0;
        lock.lock();
        if (code == EINTR) continue;
        if (code == EAGAIN) {  // another process that shares the file made it non-blocking
          pollfd file{file_.get(), POLLOUT, 0};
          lock.unlock();
          ::poll(&file, 1, -1);
          lock.lock();
          continue;
        }
        if (code !=
            0) {  // a full disk may have room again; a reader that is gone does not come back
          if (code != EPIPE && code != EIO && code != EBADF) left_out_ += writing_;
          break;
        }
        at += static_cast<size_t>(count);
        writing_ = batch.size() - at;
        taken_ = std::chrono::steady_clock::now();
        changed_.notify_all();
      }
      writing_ = 0;
    }
    done_ = true;
    changed_.notify_all();
  }

 private:
  void note_what_was_left_out() {
    if (left_out_ == 0) return;
    waiting_ += str("\n[dtrain launch: ", left_out_,
                    " bytes were left out here, because no process read the output]\n");
    left_out_ = 0;
  }

  const FileDescriptor file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string waiting_;
  size_t writing_ = 0;  // bytes that are no longer in `waiting_`, and not written yet
  size_t left_out_ = 0;
  bool ended_ = false, done_ = false;
  Time taken_{};  // when the file took something last
};

OutputRelay::OutputRelay() {
  flush();
  try {
    start();
  } catch (...) {
    put_files_back();
    for (const std::shared_ptr<Outlet>& outlet : outlets_) {
      if (outlet) outlet->end();
    }
    throw;
  }
}

void OutputRelay::start() {
  const bool same = are_same(STDOUT_FILENO, STDERR_FILENO);
  for (size_t i = 0; i < files_.size(); ++i) {
    files_[i] = FileDescriptor(
        ::fcntl(static_cast<int>(i) + STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    check(files_[i].is_open(), "copy a descriptor");
  }
  FileDescriptor out;
  for (size_t i = 0; i < files_.size(); ++i) {
    if (i == 0 || !same) {
      int ends[2] = {-1, -1};
      check(::pipe2(ends, O_CLOEXEC) == 0, "make a pipe");
      pipes_[i] = FileDescriptor(ends[0]);
      out = FileDescriptor(ends[1]);
      check(::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "use a pipe");
      FileDescriptor file(::fcntl(files_[i].get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
      check(file.is_open(), "copy a descriptor");
      outlets_[i] = std::make_shared<Outlet>(std::move(file));
      std::thread([outlet = outlets_[i]] { outlet->write_all(); }).detach();
    }
    check(::dup2(out.get(), static_cast<int>(i) + STDOUT_FILENO) >= 0, "use a pipe");
    files_at_terminate[i] = files_[i].get();
  }
  thread_ = std::thread([this] { empty_pipes(); });
  next_handler = std::set_terminate(put_back_and_terminate);
}

void OutputRelay::put_files_back() {
  for (size_t i = 0; i < files_.size(); ++i) {
    files_at_terminate[i] = -1;
    if (files_[i].is_open())
      ::dup2(files_[i].get(), static_cast<int>(i) + STDOUT_FILENO);  // this closes the pipe
  }
}

OutputRelay::~OutputRelay() {
  flush();
  std::set_terminate(next_handler);
  put_files_back();
  stopping_ = true;
  thread_.join();
  for (const std::shared_ptr<Outlet>& outlet : outlets_) {
    if (outlet) outlet->end();
  }
  for (const std::shared_ptr<Outlet>& outlet : outlets_) {
    if (outlet) outlet->wait_until_written();
  }
}

void OutputRelay::empty_pipes() {
  name_this_thread(kServiceThread);
  std::array<bool, 2> ended = {!outlets_[0], !outlets_[1]};
  while (!ended[0] || !ended[1]) {
    std::array<pollfd, 2> ready{};
    for (size_t i = 0; i < ready.size(); ++i)
      ready[i] = {ended[i] ? -1 : pipes_[i].get(), POLLIN, 0};
    const int count = ::poll(ready.data(), ready.size(), kBetweenLooks);
    if (count == 0 && stopping_) return;
    for (size_t i = 0; i < ready.size(); ++i) {
      if (count <= 0 || ready[i].revents == 0) continue;
      char bytes[kPiece];
      const ssize_t size = ::read(pipes_[i].get(), bytes, sizeof bytes);
      if (size > 0) outlets_[i]->add({bytes, static_cast<size_t>(size)});
      ended[i] = size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN);
    }
  }
}

}  // namespace dtrain::supervisor

#include "core/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/file_descriptor.h"
#include "core/stopwatch.h"
#include "core/strings.h"

namespace dtrain {
namespace {

constexpr int kBetweenLooks = 10;  // ms
constexpr size_t kMostOutput = 1 << 20, kMostErrors = 16 << 10;
constexpr size_t kMostInput = 64 << 10;  // of a pipe that nobody reads yet

struct Pipe {
  FileDescriptor read, write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw Error(str("cannot make a pipe: ", std::strerror(errno)));
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));  // exec does not write there
  all.push_back(nullptr);
  return all;
}

// What posix_spawn() shall do in the child: the three standard files and nothing else, a group of its own, and signals
// as a program expects them.
class Attributes {
 public:
  Attributes(int in, int out, int error) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_adddup2(&files_, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files_, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files_, error, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&files_);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  pid_t spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
    pid_t child = -1;
    const int code = posix_spawn(&child, command[0].c_str(), &files_, &attributes_, pointers(command).data(),
                                 pointers(environment).data());
    if (code != 0) throw Error(str("cannot start ", command[0], ": ", std::strerror(code)));
    return child;
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

int64_t resident_bytes(pid_t process) {
  int64_t pages = 0, resident = 0;
  std::ifstream(str("/proc/", process, "/statm")) >> pages >> resident;
  return resident * ::sysconf(_SC_PAGE_SIZE);
}

// Adds what the pipe has now. False: its end was reached.
bool take(const FileDescriptor& pipe, std::string& text) {
  std::array<char, 4096> bytes;
  const ssize_t count = ::read(pipe.get(), bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  text.append(bytes.data(), static_cast<size_t>(count));
  return count > 0;
}

// The child, its group and its pipes, until it is gone.
class Child {
 public:
  Child(pid_t process, FileDescriptor out, FileDescriptor error)
      : process_(process), out_(std::move(out)), error_(std::move(error)) {}
  ~Child() {
    if (!gone_) end();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int64_t resident() const { return resident_bytes(process_); }

  // Waits a moment for output or for the end. True: it has ended.
  bool look() {
    std::array<pollfd, 2> files = {{{out_.get(), POLLIN, 0}, {error_.get(), POLLIN, 0}}};
    if (::poll(files.data(), files.size(), kBetweenLooks) > 0) read(files);
    if (::waitpid(process_, &status_, WNOHANG) != process_) return false;
    gone_ = true;
    ::kill(-process_, SIGKILL);  // what it has started and left behind
    drain();
    return true;
  }

  void end() {
    ::kill(-process_, SIGKILL);
    while (::waitpid(process_, &status_, 0) < 0 && errno == EINTR) {
    }
    gone_ = true;
    drain();
  }

  ChildEnd result(ChildEnd::Why why) && {
    ChildEnd result{.why = why, .output = std::move(output_), .errors = std::move(errors_)};
    if (why != ChildEnd::Why::kExited) return result;
    result.why = WIFEXITED(status_) ? ChildEnd::Why::kExited : ChildEnd::Why::kSignaled;
    result.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : WTERMSIG(status_);
    return result;
  }

 private:
  void read(const std::array<pollfd, 2>& files) {
    if (files[0].revents != 0 && out_.is_open() && !take(out_, output_)) out_.close();
    if (files[1].revents != 0 && error_.is_open() && !take(error_, errors_)) error_.close();
    if (output_.size() > kMostOutput) output_.resize(kMostOutput);
    if (errors_.size() > kMostErrors) errors_.erase(0, errors_.size() - kMostErrors);
  }

  // What is still in the pipes; no longer than a moment, for a process outside of the group may hold them open.
  void drain() {
    for (int i = 0; i < 1000 && (out_.is_open() || error_.is_open()); ++i) {
      std::array<pollfd, 2> files = {{{out_.get(), POLLIN, 0}, {error_.get(), POLLIN, 0}}};
      if (::poll(files.data(), files.size(), 0) <= 0) return;
      read(files);
    }
  }

  const pid_t process_;
  FileDescriptor out_, error_;
  std::string output_, errors_;
  int status_ = 0;
  bool gone_ = false;
};

}  // namespace

ChildEnd run_child(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                   const std::string& input, const ChildLimits& limits, const std::function<bool()>& stop) {
  if (input.size() > kMostInput) throw Error(str("the input of ", command[0], " has ", input.size(), " bytes"));
  Pipe in = make_pipe(), out = make_pipe(), error = make_pipe();
  // It fits into the pipe, so that this does not wait for a reader.
  if (const int code = in.write.write_all(std::as_bytes(std::span(input)))) {
    throw Error(str("cannot write to a pipe: ", std::strerror(code)));
  }
  in.write.close();
  const pid_t process = Attributes(in.read.get(), out.write.get(), error.write.get()).spawn(command, environment);
  out.write.close();
  error.write.close();
  Child child(process, std::move(out.read), std::move(error.read));
  const auto began = std::chrono::steady_clock::now();
  ChildEnd::Why why = ChildEnd::Why::kExited;
  while (!child.look()) {
    if (stop && stop()) {
      why = ChildEnd::Why::kStopped;
    } else if (child.resident() > limits.resident_bytes) {
      why = ChildEnd::Why::kTooLarge;
    } else if (seconds_since(began) > limits.seconds) {
      why = ChildEnd::Why::kTooLong;
    } else {
      continue;
    }
    child.end();
    break;
  }
  return std::move(child).result(why);
}

bool end_with_parent(int64_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  return ::getppid() == parent;  // it may have ended before prctl()
}

}  // namespace dtrain

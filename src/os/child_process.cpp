#include "os/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain {
namespace {

constexpr size_t kMostInput = 64 << 10;  // bytes that fit into a pipe that is not read yet

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
  for (const std::string& text : texts)
    all.push_back(const_cast<char*>(text.c_str()));  // exec does not write there
  all.push_back(nullptr);
  return all;
}

// What posix_spawn() does in the child: the three standard files and nothing else, a group of
// its own, and signals as a program expects them.
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
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&files_);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  pid_t spawn(const std::vector<std::string>& command,
              const std::vector<std::string>& environment) {
    pid_t child = -1;
    const int code = posix_spawnp(&child, command[0].c_str(), &files_, &attributes_,
                                  pointers(command).data(), pointers(environment).data());
    if (code == ENOENT) throw UsageError(str(command[0], " is not in PATH, and is needed"));
    if (code != 0) throw Error(str("cannot start ", command[0], ": ", std::strerror(code)));
    return child;
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

// Gives what the pipe has now. False: its end was reached.
bool take_from(const FileDescriptor& pipe, bool is_error, const ChildProcess::Take& take) {
  std::array<char, 4096> bytes;
  const ssize_t count = ::read(pipe.get(), bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count > 0 && take) take({bytes.data(), static_cast<size_t>(count)}, is_error);
  return count > 0;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const std::vector<std::string>& environment, std::string_view input) {
  if (input.size() > kMostInput)
    throw Error(str("the input of ", command[0], " has ", input.size(), " bytes"));
  Pipe in = make_pipe(), out = make_pipe(), error = make_pipe();
  // It fits into the pipe, so that this does not wait for a reader.
  if (const int code = in.write.write_all(std::as_bytes(std::span(input)))) {
    throw Error(str("cannot write to a pipe: ", std::strerror(code)));
  }
  in.write.close();
  process_ =
      Attributes(in.read.get(), out.write.get(), error.write.get()).spawn(command, environment);
  out_ = std::move(out.read);
  error_ = std::move(error.read);
}

ChildProcess::~ChildProcess() {
  if (!ended_) kill();
}

bool ChildProcess::look(int milliseconds, const Take& take) {
  if (ended_) return true;
  read_ready(milliseconds, take);
  if (!has_ended(WNOHANG)) return false;
  ended_ = true;
  ::kill(-process_, SIGKILL);  // what it has started and left behind
  drain(take);
  return true;
}

void ChildProcess::signal(int number) noexcept {
  if (!ended_) ::kill(process_, number);
}

void ChildProcess::kill(const Take& take) {
  if (ended_) return;
  ::kill(-process_, SIGKILL);
  has_ended(0);
  ended_ = true;
  drain(take);
}

// Where SIGCHLD is ignored, as a parent may have set it, the kernel keeps no status: the child is
// gone, and failed.
bool ChildProcess::has_ended(int options) {
  pid_t ended = -1;
  do {
    ended = ::waitpid(process_, &status_, options);
  } while (ended < 0 && errno == EINTR);
  if (ended < 0) status_ = W_EXITCODE(255, 0);
  return ended != 0;
}

int64_t ChildProcess::resident_bytes() const {
  int64_t pages = 0, resident = 0;
  std::ifstream(str("/proc/", process_, "/statm")) >> pages >> resident;
  return resident * ::sysconf(_SC_PAGE_SIZE);
}

bool ChildProcess::read_ready(int milliseconds, const Take& take) {
  std::array<pollfd, 2> files = {{{out_.get(), POLLIN, 0}, {error_.get(), POLLIN, 0}}};
  if (::poll(files.data(), files.size(), milliseconds) <= 0) return false;
  if (files[0].revents != 0 && out_.is_open() && !take_from(out_, false, take)) out_.close();
  if (files[1].revents != 0 && error_.is_open() && !take_from(error_, true, take)) error_.close();
  return true;
}

// What is still in the pipes; no longer than a moment, for a process outside of the group may hold
// them open.
void ChildProcess::drain(const Take& take) {
  for (int i = 0; i < 1000 && (out_.is_open() || error_.is_open()); ++i) {
    if (!read_ready(0, take)) return;
  }
}

std::string last_line(std::string_view output) {
  std::string last;
  for (std::string& line : split(output, '\n')) {
    if (line.ends_with('\r')) line.pop_back();  // ssh ends its lines with \r\n
    if (!trimmed(line).empty()) last = trimmed(line);
  }
  return last;
}

bool end_with_parent(int64_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::ofstream("/proc/self/oom_score_adj") << 1000;
  return ::getppid() == parent;  // it may have ended before prctl()
}

}  // namespace dtrain

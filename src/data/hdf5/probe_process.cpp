#include "data/hdf5/probe_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "data/hdf5/layout_bytes.h"
#include "text/strings.h"

namespace dtrain::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRequests = STDERR_FILENO + 1;  // the helper's socket
constexpr uint64_t kMostReplyBytes = uint64_t{64} << 20;
constexpr std::chrono::seconds kHelperDelay{
    10};  // how much later than its worker's limit the helper answers at most

// The first byte of a reply; what follows it is a layout, the message of a DataError, why the
// worker ended and what the cause can be, or which system call failed.
enum Kind : char { kLayout = 'L', kRefused = 'R', kDied = 'D', kNotRun = 'E' };

// ---- messages: the number of bytes, then the bytes ----------------------------------------------
// Returns 0 or the errno. Not write(2): without a reader it would send SIGPIPE.
int send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return 0;
}

int send_message(const FileDescriptor& socket, std::string_view text) {
  const uint64_t size = text.size();
  const int code = send_all(socket.get(), {reinterpret_cast<const char*>(&size), sizeof size});
  return code != 0 ? code : send_all(socket.get(), text);
}

// Returns 0, the errno, or FileDescriptor::kEndOfFile if the other end is closed.
int receive_message(const FileDescriptor& socket, std::string* text) {
  uint64_t size = 0;
  if (const int code = socket.read_all(std::as_writable_bytes(std::span(&size, 1)))) return code;
  if (size > kMostReplyBytes) return EMSGSIZE;
  text->resize(size);
  return socket.read_all(std::as_writable_bytes(std::span(*text)));
}

// Ends this process as soon as `parent` has ended, which may be before this call.
void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
}

// The reply about a worker that ended in the way that `how` says. `other_cause` ends with "or ", if
// there is one.
std::string died(const std::string& how, std::string_view other_cause = {}) {
  return str(static_cast<char>(kDied), how, ": ", other_cause,
             "the file is damaged, or was made to do this");
}

std::string not_run(std::string_view call, int code) {
  return str(static_cast<char>(kNotRun), call, ": ", std::strerror(code));
}

// ---- the worker ---------------------------------------------------------------------------------
// 0: unknown, because /proc is not mounted.
int64_t address_space_bytes() {
  int64_t pages = 0;
  if (std::FILE* const file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * ::sysconf(_SC_PAGESIZE);
}

// Never above a limit that is already set.
void limit(int resource, rlim_t value) {
  rlimit now{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &now) != 0) return;
  now.rlim_cur = std::min(now.rlim_cur, value);
  ::setrlimit(static_cast<__rlimit_resource>(resource), &now);
}

[[noreturn]] void work(const std::string& file, const ProbeLimits& limits,
                       const ProbeProcess::Probe& probe, int out) {
  ::close(kRequests);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, static_cast<rlim_t>(limits.processor.count()));
  if (const int64_t used = address_space_bytes(); used > 0) {
    limit(RLIMIT_AS, static_cast<rlim_t>(used + limits.bytes));
  }
  std::string reply;
  try {
    reply = static_cast<char>(kLayout) + encode(probe(file));
  } catch (const std::bad_alloc&) {
    reply = died(str("needed more than ", human_bytes(static_cast<double>(limits.bytes))));
  } catch (const std::exception& e) {
    reply = static_cast<char>(kRefused) + std::string(e.what());
  }
  const int code = FileDescriptor(out).write_all(std::as_bytes(std::span(reply)));
  ::_exit(code == 0 ? 0 : 1);
}

// ---- the helper ---------------------------------------------------------------------------------
// What the worker wrote, and why reading ended.
struct Output {
  enum End { kClosed, kTooLate, kTooLong, kFailed } end = kClosed;
  std::string text;  // all of it if `end` is kClosed
  int code = 0;      // errno if `end` is kFailed
};

Output read_to_end(int in, std::chrono::seconds wall) {
  const Clock::time_point end = Clock::now() + wall;
  Output output;
  std::array<char, 65536> piece;
  while (output.text.size() <= kMostReplyBytes) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd ready{.fd = in, .events = POLLIN, .revents = 0};
    const int count = left <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left) + 1);
    if (count == 0) {
      output.end = Output::kTooLate;
      return output;
    }
    const ssize_t got = count < 0 ? -1 : ::read(in, piece.data(), piece.size());
    if (got == 0) return output;
    if (got > 0) output.text.append(piece.data(), static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) {
      output.end = Output::kFailed;
      output.code = errno;
      return output;
    }
  }
  output.end = Output::kTooLong;
  return output;
}

// The reply if the worker sent none. `status`: as waitpid() gives it.
std::string reason(int status, const Output& output, const ProbeLimits& limits) {
  if (output.end == Output::kFailed)
    return not_run("read from the process that opens it", output.code);
  if (output.end == Output::kTooLong) {
    return died(str("sent more than ", human_bytes(static_cast<double>(kMostReplyBytes))));
  }
  if (output.end == Output::kTooLate) {
    return died(str("did not end within ", limits.wall.count(), " s"),
                "its disk does not answer, or ");
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    return died(str("did not end within ", limits.processor.count(), " s of processor time"));
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
    return died("was killed", "the machine is out of memory, or ");
  }
  if (WIFSIGNALED(status)) return died(str("crashed (", ::strsignal(WTERMSIG(status)), ")"));
  return died(str("ended early (exit code ", WEXITSTATUS(status), ")"));
}

std::string reply_about(const std::string& file, const ProbeLimits& limits,
                        const ProbeProcess::Probe& probe) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return not_run("create a pipe", errno);
  FileDescriptor in(ends[0]), out(ends[1]);
  const pid_t helper = ::getpid(), worker = ::fork();
  if (worker == 0) {
    die_with(helper);
    in.close();
    work(file, limits, probe, out.get());
  }
  if (worker < 0) return not_run("start a process", errno);
  out.close();
  Output output = read_to_end(in.get(), limits.wall);
  if (output.end != Output::kClosed) ::kill(worker, SIGKILL);
  int status = 0;
  while (::waitpid(worker, &status, 0) < 0 && errno == EINTR) {
  }
  const bool replied = output.end == Output::kClosed && !output.text.empty();
  if (replied && WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::move(output.text);
  return reason(status, output, limits);
}

// Leaves to this process only what the helper needs. Its standard streams go: whatever the HDF5
// library or malloc prints about a damaged file is no message of dtrain.
void detach(const FileDescriptor& socket) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, stream);
  ::dup2(socket.get(), kRequests);
  ::closefrom(kRequests + 1);
  ::prctl(PR_SET_NAME, "dtrain-probe");
  // Ctrl-C, and what a launcher sends to the whole process group, is for the process that trains:
  // it may still save.
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2})
    std::signal(signal, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
}

// No signal reaches the child before it is ready for them.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { restore(); }
  void restore() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

[[noreturn]] void serve(const FileDescriptor& socket, const ProbeLimits& limits,
                        const ProbeProcess::Probe& probe, const BlockedSignals& blocked) {
  detach(socket);
  blocked.restore();
  const FileDescriptor requests(kRequests);
  std::string file;
  while (receive_message(requests, &file) == 0) {  // until the other end is closed
    if (send_message(requests, reply_about(file, limits, probe)) != 0) break;
  }
  ::_exit(0);
}

}  // namespace

ProbeProcess::ProbeProcess(ProbeLimits limits, Probe probe) : limits_(limits) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    fork_error_ = errno;
    return;
  }
  socket_ = FileDescriptor(ends[0]);
  const FileDescriptor theirs(ends[1]);
  const pid_t parent = ::getpid();
  const BlockedSignals blocked;
  helper_ = ::fork();
  if (helper_ == 0) {
    die_with(parent);
    serve(theirs, limits, probe, blocked);
  }
  if (helper_ < 0) fork_error_ = errno;
  const timeval patience{.tv_sec = (limits.wall + kHelperDelay).count(), .tv_usec = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

ProbeProcess::~ProbeProcess() {
  if (helper_ <= 0) return;
  ::kill(helper_, SIGKILL);
  while (::waitpid(helper_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Layout ProbeProcess::probe(const std::filesystem::path& file) {
  if (helper_ < 0) {
    throw Error(str("cannot open ", file.string(),
                    ": the process that reads its structure could not be started: ",
                    std::strerror(fork_error_)));
  }
  int code = send_message(socket_, file.native());
  std::string reply;
  if (code == 0) code = receive_message(socket_, &reply);
  if (code != 0 || reply.empty()) {
    socket_.close();  // a late answer must not be taken for that of the next file
    const bool late = code == EAGAIN || code == EWOULDBLOCK;
    throw Error(str("cannot open ", file.string(), ": the process that reads its structure ",
                    late ? "does not answer" : "has ended. Was it killed? Start again"));
  }
  const std::string_view rest = std::string_view(reply).substr(1);
  if (reply[0] == kLayout) return decode(rest, file);
  if (reply[0] == kRefused) throw DataError(std::string(rest));
  if (reply[0] == kNotRun) throw Error(str("cannot open ", file.string(), ": cannot ", rest));
  throw DataError(str(file.string(), ": the process in which the HDF5 library read its structure ",
                      rest, ". Get an intact copy, or make it again with `dtrain convert`"));
}

}  // namespace dtrain::data

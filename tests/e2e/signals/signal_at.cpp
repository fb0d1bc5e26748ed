// Sends a signal at an exact moment of a rank, for a dtrain that is started with LD_PRELOAD.
// Variables say when:
//   SIGNAL_BOARD        a file of kBoardBytes, shared by the ranks, which tells the test what
//                       happened, and when
//   SIGNAL_AFTER        what is looked for in everything that any rank writes; empty: the moment
//                       may come at once
//   SIGNAL_AFTER_NTH    the how many-th time (1) that text is written
//   SIGNAL_CALL         then: load (before main), handler (installed), init, init_end, fsync,
//                       rename, reduce, finalize, finalize_end, exit (of main()); pread: of the
//                       data; text: with the text itself
//   SIGNAL_NTH          the how many-th (1) such call after the text ...
//   SIGNAL_RANK         ... of this rank (0); text is of the rank that writes
//   SIGNAL_DELAY_US     so much later (0), while the rank goes on
//   SIGNAL_WAIT         1: the rank does not go on before it has received the signal
//   SIGNAL_SLOW_US      after the text each read of samples takes so much longer
//   SIGNAL_NUMBER, SIGNAL_TO   which (SIGUSR1), and its target: parent (mpirun; without mpirun the
//                              process itself) or self

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <thread>

namespace {

constexpr size_t kBoardBytes = 4096;
constexpr int kMostRanks = 8;

using Time = std::atomic<int64_t>;  // CLOCK_MONOTONIC in ns, which all processes share; 0: not yet

struct Board {
  Time armed, fired;
  Time main_began[kMostRanks], handler_set[kMostRanks], received[kMostRanks], finalized[kMostRanks];
  char job[32];  // Open MPI's number of it
};
static_assert(sizeof(Board) <= kBoardBytes && Time::is_always_lock_free);

struct Plan {
  std::string after, call;
  int64_t after_nth, nth, rank, delay_us, slow_us, number;
  bool waits, to_self;
};

Board* board = nullptr;  // null: this process is no rank of the test
Plan* plan = nullptr;
int own_rank = 0;
pid_t own_process = 0;
std::atomic<int64_t> texts{0}, calls{0};
void (*real_handler)(int) = nullptr;

int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}

std::string variable(const char* name, const char* otherwise) {
  const char* text = ::getenv(name);
  return text ? text : otherwise;
}

int64_t number(const char* name, const char* otherwise) {
  return ::atoll(variable(name, otherwise).c_str());
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Not in what a rank has forked.
bool is_active() { return board && ::getpid() == own_process; }

void send() {
  const bool has_parent = ::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  board->fired = now();
  ::kill(plan->to_self || !has_parent ? own_process : ::getppid(), static_cast<int>(plan->number));
}

void fire() {
  static std::atomic<bool> once{false};
  if (once.exchange(true) || board->fired) return;  // once for all jobs of a case
  if (plan->delay_us > 0) {
    std::thread([] {
      ::usleep(static_cast<useconds_t>(plan->delay_us));
      if (!board->finalized[own_rank]) send();  // mpirun may be gone, and its number another's
    }).detach();
    return;
  }
  send();
  for (int ms = 0;
       plan->waits && board->handler_set[own_rank] && !board->received[own_rank] && ms < 3000;
       ++ms) {
    ::usleep(1000);
  }
}

void reached(const char* call) {
  if (!is_active() || plan->call != call || own_rank != plan->rank) return;
  if (!plan->after.empty() && !board->armed) return;
  if (++calls == plan->nth) fire();
}

// Not one of the files of /proc, which are read in the same way after each step.
bool is_data(int file) {
  std::array<char, 4096> path;
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path.data(), path.size());
  return size > 0 && std::string_view(path.data(), static_cast<size_t>(size)).ends_with(".h5");
}

void written(const void* bytes, size_t size) {
  if (!is_active() || plan->after.empty() || board->armed) return;
  if (!::memmem(bytes, size, plan->after.data(), plan->after.size()) || ++texts != plan->after_nth)
    return;
  board->armed = now();
  if (plan->call == "text") fire();
}

extern "C" void note_and_pass_on(int signal) {
  const int before = errno;
  board->received[own_rank] = now();
  if (real_handler) real_handler(signal);
  errno = before;
}

__attribute__((constructor)) void begin() {
  const std::string file = variable("SIGNAL_BOARD", "");
  if (file.empty() || ::strcmp(program_invocation_short_name, "dtrain") != 0) return;
  if (::getenv("SIGNAL_ONLY_MPIRUN") && !::getenv("OMPI_COMM_WORLD_RANK")) return;  // dtrain launch
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return;
  void* mapped = ::mmap(nullptr, kBoardBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  if (mapped == MAP_FAILED) return;
  plan = new Plan{variable("SIGNAL_AFTER", ""),    variable("SIGNAL_CALL", ""),
                  number("SIGNAL_AFTER_NTH", "1"), number("SIGNAL_NTH", "1"),
                  number("SIGNAL_RANK", "0"),      number("SIGNAL_DELAY_US", "0"),
                  number("SIGNAL_SLOW_US", "0"),   number("SIGNAL_NUMBER", "10"),
                  number("SIGNAL_WAIT", "0") != 0, variable("SIGNAL_TO", "") == "self"};
  own_rank = static_cast<int>(number("OMPI_COMM_WORLD_RANK", "0")) % kMostRanks;
  own_process = ::getpid();
  board = static_cast<Board*>(mapped);
  ::strncpy(board->job, variable("PMIX_NAMESPACE", "").c_str(), sizeof board->job - 1);
  reached("load");
}

int (*real_main)(int, char**, char**) = nullptr;

int main_of_rank(int count, char** arguments, char** environment) {
  if (is_active()) board->main_began[own_rank] = now();
  const int code = real_main(count, arguments, environment);
  reached("exit");
  return code;
}

}  // namespace

extern "C" {

int __libc_start_main(int (*program)(int, char**, char**), int count, char** arguments,
                      void (*init)(), void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  using Start =
      int(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  real_main = program;
  return next<Start>("__libc_start_main")(main_of_rank, count, arguments, init, fini, rtld_fini,
                                          stack_end);
}

int sigaction(int number, const struct sigaction* action, struct sigaction* before) {
  static auto* const real = next<int(int, const struct sigaction*, struct sigaction*)>("sigaction");
  if (!is_active() || number != SIGUSR1 || !action || (action->sa_flags & SA_SIGINFO) ||
      !action->sa_handler) {
    return real(number, action, before);
  }
  real_handler = action->sa_handler;
  struct sigaction noting = *action;
  noting.sa_handler = note_and_pass_on;
  const int result = real(number, &noting, before);
  if (!board->handler_set[own_rank]) {
    board->handler_set[own_rank] = now();
    reached("handler");
  }
  return result;
}

int MPI_Init_thread(int* count, char*** arguments, int required, int* provided) {
  static auto* const real = next<int(int*, char***, int, int*)>("MPI_Init_thread");
  reached("init");
  const int code = real(count, arguments, required, provided);
  reached("init_end");
  return code;
}

int MPI_Finalize() {
  static auto* const real = next<int()>("MPI_Finalize");
  reached("finalize");
  const int code = real();
  reached("finalize_end");
  if (is_active()) board->finalized[own_rank] = now();
  return code;
}

int MPI_Iallreduce(const void* from, void* to, int count, void* type, void* operation, void* group,
                   void* request) {
  static auto* const real =
      next<int(const void*, void*, int, void*, void*, void*, void*)>("MPI_Iallreduce");
  reached("reduce");
  return real(from, to, count, type, operation, group, request);
}

void _Exit(int code) {  // NOLINT(bugprone-reserved-identifier)
  static auto* const real = next<void(int)>("_Exit");
  reached("exit");
  real(code);
  __builtin_unreachable();
}

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  reached("fsync");
  return real(file);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  reached("rename");
  return real(from, to);
}

ssize_t pread(int file, void* bytes, size_t size, off_t offset) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  if (is_active() && is_data(file)) {
    reached("pread");
    if (plan->slow_us > 0 && board->armed) ::usleep(static_cast<useconds_t>(plan->slow_us));
  }
  return real(file, bytes, size, offset);
}

ssize_t write(int file, const void* bytes, size_t size) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  const ssize_t result = real(file, bytes, size);
  written(bytes, size);
  return result;
}

size_t fwrite(const void* bytes, size_t size, size_t count, FILE* file) {
  static auto* const real = next<size_t(const void*, size_t, size_t, FILE*)>("fwrite");
  const size_t result = real(bytes, size, count, file);
  written(bytes, size * count);
  return result;
}

}  // extern "C"

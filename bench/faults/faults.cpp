// Makes a healthy run slow in one known way, for bench/diagnosis.py: a library for LD_PRELOAD, so
// that the program that is judged is the one that users run.
//
// DTRAIN_FAULT=KIND:MICROSECONDS[:RANK|:rotate]   in that rank, in all of them, or in another one
// every 0.5 s
//   read       each read of a sample takes that much longer, in parallel with others (a network
//              file system)
//   disk       the same, one after the other: more readers gain nothing
//   seek       the same, and n readers at a time take n times as long: more readers lose
//   forward    each convolution or LSTM of the network, forward
//   backward   the same, backward
//   message    each message that carries gradients (it sleeps in MPI_Isend)
//   grow       a thread takes MICROSECONDS bytes more memory, and touches them, every millisecond

#include <ATen/record_function.h>
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace {

struct Fault {
  std::string kind;
  int64_t microseconds = 0;
  bool rotates = false;
  bool here = true;  // in this rank
  int rank = 0, ranks = 1;
};

int number(const char* name, int missing) {
  const char* value = std::getenv(name);
  return value == nullptr ? missing : std::atoi(value);
}

Fault parse() {
  Fault fault;
  const char* text = std::getenv("DTRAIN_FAULT");
  if (text == nullptr) return fault;
  const std::string all = text;
  const size_t first = all.find(':'), second = all.find(':', first + 1);
  fault.kind = all.substr(0, first);
  fault.microseconds = std::atoll(all.c_str() + first + 1);
  fault.rank = number("OMPI_COMM_WORLD_RANK", 0);
  fault.ranks = number("OMPI_COMM_WORLD_SIZE", 1);
  if (second == std::string::npos) return fault;
  const std::string where = all.substr(second + 1);
  fault.rotates = where == "rotate";
  fault.here = fault.rotates || std::atoi(where.c_str()) == fault.rank;
  return fault;
}

const Fault& fault() {
  static const Fault parsed = parse();
  return parsed;
}

// All ranks of a host read the same clock, so one of them is slow at a time. A turn is longer than
// a step: what all ranks lose in the same step would not come back if they were even.
bool is_my_turn() {
  if (!fault().rotates) return fault().here;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count() / 500 % fault().ranks ==
         fault().rank;
}

void be_slow(int64_t times = 1) {
  // The kernel adds 50 us to each sleep of a thread that did not ask for less.
  thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1);
  static_cast<void>(exact);
  if (is_my_turn())
    std::this_thread::sleep_for(std::chrono::microseconds(times * fault().microseconds));
}

void read_slowly() {
  static std::mutex arm;
  static std::atomic<int> readers = 0;
  const std::string& kind = fault().kind;
  if (kind == "read") return be_slow();
  if (kind != "disk" && kind != "seek") return;
  const int together = ++readers;
  {
    const std::lock_guard lock(arm);
    be_slow(kind == "seek" ? together : 1);
  }
  --readers;
}

// LibTorch's operators, and those of src/layers, which ones depends on the vectors of the CPU.
bool is_heavy(std::string_view name) {
  return name == "aten::convolution" || name == "aten::lstm" || name == "ConvolutionBackward0" ||
         name == "MkldnnRnnLayerBackward0" || name == "aten::mkldnn_rnn_layer" ||
         name == "dtrain::lstm" || name == "dtrain::conv2d" ||
         name.find("layers::(anonymous namespace)::Conv2d") != std::string_view::npos ||
         name.find("PackedLstm") != std::string_view::npos;
}

struct Heavy : at::ObserverContext {};

// Of operators that call each other only the outermost one is slower.
thread_local int heavy_depth = 0;

std::unique_ptr<at::ObserverContext> entered(const at::RecordFunction& function) {
  if (!is_heavy(function.name())) return nullptr;
  if (heavy_depth++ == 0) be_slow();
  return std::make_unique<Heavy>();
}

void left(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr) --heavy_depth;
}

void grow() {
  while (true) {
    auto* bytes = static_cast<char*>(std::malloc(static_cast<size_t>(fault().microseconds)));
    std::memset(bytes, 1, static_cast<size_t>(fault().microseconds));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

__attribute__((constructor)) void install() {
  const std::string& kind = fault().kind;
  if (fault().here && (kind == "forward" || kind == "backward")) {
    const at::RecordScope scope =
        kind == "forward" ? at::RecordScope::FUNCTION : at::RecordScope::BACKWARD_FUNCTION;
    at::addGlobalCallback(at::RecordFunctionCallback(entered, left).scopes({scope}));
  }
  if (kind == "grow" && fault().here) std::thread(grow).detach();
}

// Files of /proc and /sys, which a run reads about itself, have no size or a page.
bool is_data_file(int file) {
  struct stat about {};
  return ::fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 65536;
}

}  // namespace

// Samples are read by pread(); what is smaller than a sample, such as a header, is not delayed.
extern "C" ssize_t pread(int file, void* bytes, size_t count, off_t offset) {
  using Pread = ssize_t (*)(int, void*, size_t, off_t);
  static const auto real = reinterpret_cast<Pread>(::dlsym(RTLD_NEXT, "pread"));
  if (count >= 256 && is_data_file(file)) read_slowly();
  return real(file, bytes, count, offset);
}
extern "C" ssize_t pread64(int file, void* bytes, size_t count, off_t offset) {
  return pread(file, bytes, count, offset);
}

extern "C" int MPI_Isend(const void* bytes, int count, void* type, int to, int tag, void* comm,
                         void** request) {
  using Isend = int (*)(const void*, int, void*, int, int, void*, void**);
  static const auto real = reinterpret_cast<Isend>(::dlsym(RTLD_NEXT, "MPI_Isend"));
  if (fault().kind == "message") be_slow();
  return real(bytes, count, type, to, tag, comm, request);
}

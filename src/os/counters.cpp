#include "os/counters.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "os/cgroup.h"
#include "os/file_descriptor.h"
#include "os/kernel_text.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::os {
namespace {

namespace fs = std::filesystem;

// Fields of proc(5)'s /proc/PID/stat, counted from the state.
constexpr size_t kMajorFaults = 9, kUserTicks = 11, kSystemTicks = 12, kThreads = 17,
                 kResidentPages = 21, kIoWaitTicks = 39;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <typename T>
void add(std::optional<T>& sum, const std::optional<T>& value) {
  if (value) sum = sum.value_or(T{}) + *value;
}

std::optional<double> seconds_of(const std::optional<int64_t>& count, double per_second) {
  return count ? std::optional(static_cast<double>(*count) / per_second) : std::nullopt;
}

}  // namespace

class CounterReader::Impl {
 public:
  explicit Impl(fs::path root) : root_(std::move(root)) {
    open(stat_, "proc/self/stat");
    open(io_, "proc/self/io");
    open(machine_stat_, "proc/stat");
    open(vmstat_, "proc/vmstat");
    open_control_group();
  }

  ProcessCounters process() {
    ProcessCounters counters;
    counters.at = now();
    int threads = 0;
    const std::vector<std::string_view> words = stat_words(read(stat_));
    const auto number = [&](size_t field) {
      return field < words.size() ? parse_number<int64_t>(words[field]) : std::nullopt;
    };
    if (const auto user = number(kUserTicks), system = number(kSystemTicks); user && system) {
      counters.cpu_seconds = seconds_of(*user + *system, ticks_);
    }
    counters.major_faults = number(kMajorFaults);
    if (const auto count = number(kThreads)) counters.threads = threads = static_cast<int>(*count);
    if (const auto pages = number(kResidentPages)) counters.resident_bytes = *pages * page_bytes_;
    // A kernel that does not account for delays writes 0.
    if (const auto ticks = number(kIoWaitTicks); ticks && *ticks > 0)
      counters.io_wait_seconds = seconds_of(ticks, ticks_);
    read_threads(threads, counters);
    counters.read_bytes = number_of(read(io_), "read_bytes");
    return counters;
  }

  MachineCounters machine() {
    MachineCounters counters;
    counters.at = now();
    if (const auto cpu = parse_cpu_seconds(read(machine_stat_, kFirstLine), ticks_)) {
      counters.busy_seconds = cpu->busy;
      counters.idle_seconds = cpu->idle;
      counters.io_wait_seconds = cpu->io_wait;
      counters.steal_seconds = cpu->steal;
    }
    const std::string_view vm = read(vmstat_);
    counters.swapped_in_pages = number_of(vm, "pswpin");
    counters.refaulted_file_pages = number_of(vm, "workingset_refault_file");
    if (!counters.refaulted_file_pages)
      counters.refaulted_file_pages = number_of(vm, "workingset_refault");
    for (const FileDescriptor& file : group_stats_) {
      const std::string_view stat = read(file);
      // Version 2
      add(counters.throttled_seconds, seconds_of(number_of(stat, "throttled_usec"), 1e6));
      // Version 1
      add(counters.throttled_seconds, seconds_of(number_of(stat, "throttled_time"), 1e9));
    }
    return counters;
  }

  int64_t system_calls() const { return system_calls_; }

 private:
  static constexpr size_t kFirstLine = 256, kWhole = 64 << 10;

  struct Thread {
    FileDescriptor file;
    ThreadTime last;
  };

  void open(FileDescriptor& file, const fs::path& path) {
    ++system_calls_;
    static_cast<void>(file.open(root_ / path, O_RDONLY));  // one that is not there is read as ""
  }

  std::string text_of(const fs::path& path) const {
    std::ifstream in(root_ / path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // The text of an open file from its beginning, at most `most` bytes of it. Valid until the next
  // call. A file of /proc gives a page at a time, and ends with a read of nothing.
  std::string_view read(const FileDescriptor& file, size_t most = kWhole) {
    if (!file.is_open()) return {};
    if (buffer_.size() < most) buffer_.resize(most);
    size_t size = 0;
    while (size < most) {
      ++system_calls_;
      const ssize_t got =
          ::pread(file.get(), buffer_.data() + size, most - size, static_cast<off_t>(size));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return {};  // ESRCH: the thread has ended
      size += static_cast<size_t>(got);
      if (got < kShortRead) break;
    }
    return {buffer_.data(), size};
  }

  void open_control_group() {
    const std::vector<Mount> mounts = parse_mounts(text_of("proc/self/mountinfo"));
    const ControllerFolders cpu = folders_of("cpu", text_of("proc/self/cgroup"), mounts);
    for (const std::string& folder : cpu.folders) {
      FileDescriptor file;
      open(file, fs::path(folder).relative_path() / "cpu.stat");
      // The root group of version 2 has no limit, and its file no such line.
      if (file.is_open() && number_of(read(file), "nr_throttled"))
        group_stats_.push_back(std::move(file));
    }
  }

  // "RUNNING WAITING SLICES", in ns.
  static bool parse(std::string_view schedstat, ThreadTime& time) {
    const size_t first = schedstat.find(' '), second = schedstat.find(' ', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) return false;
    const auto running = parse_number<uint64_t>(schedstat.substr(0, first));
    const auto waiting = parse_number<uint64_t>(schedstat.substr(first + 1, second - first - 1));
    if (!running || !waiting) return false;
    time.cpu_seconds = static_cast<double>(*running) * 1e-9;
    time.run_delay_seconds = static_cast<double>(*waiting) * 1e-9;
    return true;
  }

  // Threads are listed again only when one has ended or their number has changed.
  void read_threads(int count, ProcessCounters& counters) {
    bool ended = false;
    for (auto it = threads_.begin(); it != threads_.end();) {
      if (parse(read(it->second.file), it->second.last)) {
        ++it;
        continue;
      }
      ended_delay_ += it->second.last.run_delay_seconds;
      it = threads_.erase(it);
      ended = true;
    }
    if (ended || count == 0 || static_cast<size_t>(count) != threads_.size()) list_threads();
    if (threads_.empty() && ended_delay_ == 0) return;
    double delay = ended_delay_;
    counters.by_thread.reserve(threads_.size());
    for (const auto& [id, thread] : threads_) {
      delay += thread.last.run_delay_seconds;
      counters.by_thread.push_back(thread.last);
    }
    counters.run_delay_seconds = delay;
  }

  std::string name_of_thread(const fs::path& task) {
    FileDescriptor file;
    ++system_calls_;
    if (file.open(task / "comm", O_RDONLY) != 0) return {};
    std::string name(read(file));
    if (name.ends_with('\n')) name.pop_back();
    return name;
  }

  void list_threads() {
    std::error_code failed;
    system_calls_ += 3;  // open, getdents until it is empty
    fs::directory_iterator entry(root_ / "proc/self/task", failed);
    for (const fs::directory_iterator end; !failed && entry != end; entry.increment(failed)) {
      const auto id = parse_number<int>(entry->path().filename().string());
      if (!id || threads_.contains(*id)) continue;
      Thread thread;
      thread.last.id = *id;
      thread.last.name = name_of_thread(entry->path());
      ++system_calls_;
      if (thread.file.open(entry->path() / "schedstat", O_RDONLY) != 0) continue;
      if (parse(read(thread.file), thread.last)) threads_.emplace(*id, std::move(thread));
    }
  }

  // A page of whole lines has more, unless it is the last one
  static constexpr ssize_t kShortRead = 2048;

  const fs::path root_;
  const double ticks_ = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const int64_t page_bytes_ = ::sysconf(_SC_PAGESIZE);
  FileDescriptor stat_, io_, machine_stat_, vmstat_;
  std::vector<FileDescriptor> group_stats_;
  std::map<int, Thread> threads_;
  double ended_delay_ = 0;  // run delay of threads that have ended, seconds
  std::string buffer_;
  int64_t system_calls_ = 0;
};

CounterReader::CounterReader(const fs::path& root) : impl_(std::make_unique<Impl>(root)) {}
CounterReader::~CounterReader() = default;
ProcessCounters CounterReader::process() { return impl_->process(); }
MachineCounters CounterReader::machine() { return impl_->machine(); }
int64_t CounterReader::system_calls() const { return impl_->system_calls(); }

}  // namespace dtrain::os

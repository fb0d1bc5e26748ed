#pragma once

// What counts up while a process runs: time that its threads waited for a core, time that the
// control group or the hypervisor took away, faults, swap, bytes of files. Two readings and their
// difference say what happened in between.
//
// A reading is cheap enough for the training thread, every few steps: files stay open, and each
// costs one pread (system_calls() counts them). A value that this kernel does not tell is absent.
// Never throws.
// Thread-safety: one thread at a time. A process that was forked needs a reader of its own.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::os {

struct ThreadTime {
  int id = 0;                                     // the kernel's thread id, see gettid()
  std::string name;                               // name when the thread was first seen
  double cpu_seconds = 0, run_delay_seconds = 0;  // running; ready to run, but without a core
};

// Counters of this process, since it started.
struct ProcessCounters {
  double at = 0;                      // when it was read, in seconds of the steady clock
  std::optional<double> cpu_seconds;  // all threads, ended ones too
  // Threads that were seen, those that have ended since too
  std::optional<double> run_delay_seconds;
  std::optional<int> threads;           // now
  std::vector<ThreadTime> by_thread;    // those that run now
  std::optional<int64_t> major_faults;  // pages that were read from a disk
  // Waiting for a disk; absent where the kernel does not measure it
  std::optional<double> io_wait_seconds;
  std::optional<int64_t> read_bytes;      // from disks
  std::optional<int64_t> resident_bytes;  // now
};

// Counters of the machine, since it started, and of the control group. Reading them costs up to a
// millisecond on a machine with hundreds of cores: once a second is often enough.
struct MachineCounters {
  double at = 0;
  // Sums over all cores
  std::optional<double> busy_seconds, idle_seconds, io_wait_seconds, steal_seconds;
  std::optional<int64_t> swapped_in_pages;
  std::optional<int64_t> refaulted_file_pages;  // read again soon after the page cache dropped them
  std::optional<double> throttled_seconds;  // the group and those above it, at their time limits
};

class CounterReader {
 public:
  explicit CounterReader(const std::filesystem::path& root = "/");
  ~CounterReader();
  CounterReader(const CounterReader&) = delete;
  CounterReader& operator=(const CounterReader&) = delete;

  ProcessCounters process();
  MachineCounters machine();
  int64_t system_calls() const;  // made by all readings so far

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::os

#include "os/counters.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "os/made_tree.h"
#include "text/strings.h"

namespace dtrain::os {
namespace {

using testing::MadeTree;

// /proc/self/stat with these values in the fields that are read.
std::string stat_text(int threads, int major_faults, int io_wait_ticks) {
  std::string text = "7 (a (b) c) S";
  for (int field = 4; field <= 42; ++field) {
    const int value = field == 12   ? major_faults
                      : field == 14 ? 250
                      : field == 15 ? 50
                      : field == 20 ? threads
                      : field == 24 ? 10
                      : field == 42 ? io_wait_ticks
                                    : 0;
    text += str(" ", value);
  }
  return text + "\n";
}

TEST(ProcessCounters, OfAMadeTree) {
  MadeTree tree;
  tree.file("/proc/self/stat", stat_text(2, 5, 100))
      .file("/proc/self/io",
            "rchar: 4000\nwchar: 1\nsyscr: 8\nsyscw: 1\nread_bytes: 512\nwrite_bytes: "
            "1024\ncancelled_write_bytes: 0\n")
      .file("/proc/self/task/7/schedstat", "2000000000 500000000 12\n")
      .file("/proc/self/task/8/schedstat", "1000000000 250000000 12\n")
      .file("/proc/self/task/8/comm", "dt-reader\n");
  CounterReader reader(tree.root());
  ProcessCounters counters = reader.process();
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(counters.cpu_seconds.value(), 300 / ticks);
  EXPECT_DOUBLE_EQ(counters.run_delay_seconds.value(), 0.75);
  EXPECT_EQ(counters.threads, 2);
  ASSERT_EQ(counters.by_thread.size(), 2u);
  EXPECT_EQ(counters.by_thread[1].id, 8);
  EXPECT_EQ(counters.by_thread[0].name, "");
  EXPECT_EQ(counters.by_thread[1].name, "dt-reader");
  EXPECT_DOUBLE_EQ(counters.by_thread[1].cpu_seconds, 1);
  EXPECT_EQ(counters.major_faults, 5);
  EXPECT_DOUBLE_EQ(counters.io_wait_seconds.value(), 100 / ticks);
  EXPECT_EQ(counters.resident_bytes, 10 * ::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(counters.read_bytes, 512);
  // A thread that has ended keeps its delay in the sum; a new one is found by the number
  // of threads.
  tree.file("/proc/self/task/8/schedstat", "")
      .file("/proc/self/task/9/schedstat", "1 1000000000 1\n")
      .file("/proc/self/stat", stat_text(2, 5, 0));
  std::filesystem::remove_all(tree.root() / "proc/self/task/8");
  counters = reader.process();
  EXPECT_DOUBLE_EQ(counters.run_delay_seconds.value(), 1.75);
  ASSERT_EQ(counters.by_thread.size(), 2u);
  EXPECT_EQ(counters.by_thread[1].id, 9);
  EXPECT_FALSE(counters.io_wait_seconds) << "this kernel does not count it";
}

TEST(ProcessCounters, DamagedAndMissingFilesTellNothing) {
  MadeTree tree;
  CounterReader none(tree.root());
  ProcessCounters counters = none.process();
  EXPECT_FALSE(counters.cpu_seconds || counters.run_delay_seconds || counters.threads ||
               counters.major_faults);
  EXPECT_FALSE(counters.io_wait_seconds || counters.read_bytes || counters.resident_bytes);
  EXPECT_TRUE(counters.by_thread.empty());
  tree.file("/proc/self/stat", "7 (a) S 1 2")
      .file("/proc/self/io", "read_bytes: x\n")
      .file("/proc/self/task/7/schedstat", "12 \n")
      .file("/proc/self/task/x/schedstat", "1 2 3\n");
  CounterReader damaged(tree.root());
  counters = damaged.process();
  EXPECT_FALSE(counters.cpu_seconds || counters.run_delay_seconds || counters.threads ||
               counters.read_bytes);
}

TEST(MachineCounters, OfBothVersionsOfControlGroups) {
  MadeTree tree;
  tree.file("/proc/stat", "cpu  100 0 100 400 50 0 0 25 0 0\ncpu0 1\n")
      .file("/proc/vmstat",
            "nr_free_pages 1\npswpin 3\npswpout 4\nworkingset_refault_anon "
            "1\nworkingset_refault_file 9\n")
      .file("/proc/self/cgroup", "0::/a/b\n")
      .file("/proc/self/mountinfo", "30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
      .file("/sys/fs/cgroup/a/b/cpu.stat",
            "usage_usec 5\nnr_periods 10\nnr_throttled 4\nthrottled_usec 1500000\n")
      .file("/sys/fs/cgroup/a/cpu.stat",
            "usage_usec 5\nnr_periods 1\nnr_throttled 1\nthrottled_usec 500000\n")
      .file("/sys/fs/cgroup/cpu.stat", "usage_usec 5\n");
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  MachineCounters counters = CounterReader(tree.root()).machine();
  EXPECT_DOUBLE_EQ(counters.busy_seconds.value(), 200 / ticks);
  EXPECT_DOUBLE_EQ(counters.idle_seconds.value(), 400 / ticks);
  EXPECT_DOUBLE_EQ(counters.io_wait_seconds.value(), 50 / ticks);
  EXPECT_DOUBLE_EQ(counters.steal_seconds.value(), 25 / ticks);
  EXPECT_EQ(counters.swapped_in_pages, 3);
  EXPECT_EQ(counters.refaulted_file_pages, 9);
  EXPECT_DOUBLE_EQ(counters.throttled_seconds.value(), 2) << "of the group and the one above it";

  MadeTree first;
  first.file("/proc/self/cgroup", "2:cpu,cpuacct:/x\n")
      .file("/proc/self/mountinfo", "31 1 0:6 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n")
      .file("/cg/cpu/x/cpu.stat", "nr_periods 8\nnr_throttled 2\nthrottled_time 3000000000\n");
  counters = CounterReader(first.root()).machine();
  EXPECT_DOUBLE_EQ(counters.throttled_seconds.value(), 3);
  EXPECT_FALSE(counters.busy_seconds || counters.steal_seconds || counters.swapped_in_pages ||
               counters.refaulted_file_pages);
}

// A page of a large file at a time, as /proc gives it, is put together.
TEST(MachineCounters, OfThisMachine) {
  CounterReader reader;
  const MachineCounters counters = reader.machine();
  EXPECT_GT(counters.idle_seconds.value() + counters.busy_seconds.value(), 0);
  EXPECT_TRUE(counters.refaulted_file_pages) << "it is in the second page of /proc/vmstat";
}

TEST(ProcessCounters, TwoThreadsOnOneCoreDelayEachOther) {
  cpu_set_t all, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  CounterReader reader;
  const ProcessCounters before = reader.process();
  {
    std::atomic<bool> stop{false};
    std::jthread other([&] {
      while (!stop) {
      }
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    while (std::chrono::steady_clock::now() < end) {
    }
    const ProcessCounters during = reader.process();
    EXPECT_EQ(during.by_thread.size(), before.by_thread.size() + 1);
    EXPECT_GT(during.run_delay_seconds.value() - before.run_delay_seconds.value(), 0.1)
        << "each of both waits half of the time";
    const auto self = std::ranges::find_if(
        during.by_thread, [](const ThreadTime& time) { return time.id == ::gettid(); });
    ASSERT_NE(self, during.by_thread.end());
    EXPECT_GT(self->cpu_seconds, 0);
    stop = true;
  }
  ProcessCounters after = reader.process();
  for (int tries = 0; after.by_thread.size() != before.by_thread.size() && tries < 1000; ++tries) {
    // What was joined may be in /proc for a moment longer
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    after = reader.process();
  }
  EXPECT_EQ(after.by_thread.size(), before.by_thread.size()) << "the thread has ended";
  EXPECT_GT(after.run_delay_seconds.value() - before.run_delay_seconds.value(), 0.1)
      << "and its delay still counts";
  ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
}

TEST(CounterReader, AReadingCostsACallForEachFileAndThread) {
  CounterReader reader;
  reader.process();
  const int64_t before = reader.system_calls();
  constexpr int kReadings = 100;
  const auto begin = std::chrono::steady_clock::now();
  ProcessCounters counters;
  for (int i = 0; i < kReadings; ++i) counters = reader.process();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(reader.system_calls() - before,
            kReadings * (2 + static_cast<int64_t>(counters.by_thread.size())))
      << "stat, io and one of each thread";
  EXPECT_LT(seconds.count() / kReadings, 1e-3) << "also on a loaded machine";
  RecordProperty("microseconds", str(seconds.count() / kReadings * 1e6));
}

}  // namespace
}  // namespace dtrain::os

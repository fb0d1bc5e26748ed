// What measuring a step costs in memory and in calls of the kernel; bench/measure_overhead.cpp has
// the time.

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <string>

#include "data/loader/stage_clock.h"
#include "measure/resource_meter.h"
#include "support/count_allocations.h"
#include "train/phase_tracker.h"

namespace dtrain::train {
namespace {

using measure::Phase;

int64_t allocations_of(const std::function<void()>& work) {
  const int64_t before = testing::allocations_of_process();
  work();
  return testing::allocations_of_process() - before;
}

// read() and write() of this process so far.
int64_t transfers() {
  std::ifstream file("/proc/self/io");
  int64_t sum = 0, value = 0;
  for (std::string name; file >> name >> value;)
    sum += name == "syscr:" || name == "syscw:" ? value : 0;
  return sum;
}

int64_t transfers_of(const std::function<void()>& work) {
  const auto nothing = [] {};
  const auto around = [](const std::function<void()>& body) {
    const int64_t before = transfers();
    body();
    return transfers() - before;
  };
  return around(work) - around(nothing);  // reading the counter counts too
}

void steps(PhaseTracker& tracker, int count) {
  for (int i = 0; i < count; ++i) {
    tracker.begin_step();
    for (const Phase phase : {Phase::kDataWait, Phase::kForward, Phase::kBackward})
      tracker.enter(phase);
    dist::BackwardTimes times;
    times.begin(at::kCPU);
    for (size_t bucket = 0; bucket < 8; ++bucket) times.ready(at::kCPU, bucket, 8);
    tracker.enter(Phase::kAllReduceWait);
    tracker.clock().note(times);
    tracker.enter(Phase::kOptimizer);
    tracker.leave();
  }
}

TEST(MeasureCost, AStepAllocatesNothing) {
  PhaseTracker tracker(at::kCPU, [](const char*, int64_t) {});
  steps(tracker, 20);  // until lists are long enough
  tracker.clock().take_steps();
  EXPECT_EQ(allocations_of([&] { steps(tracker, 10); }), 0);
  EXPECT_EQ(tracker.clock().take_steps().size(), 10u);
}

TEST(MeasureCost, AStepReadsNoFile) {
  ASSERT_GT(transfers_of([] { std::ifstream("/proc/self/stat").get(); }), 0) << "they are counted";
  PhaseTracker tracker(at::kCPU, [](const char*, int64_t) {});
  EXPECT_EQ(transfers_of([&] { steps(tracker, 1000); }), 0);
}

TEST(MeasureCost, ASampleAllocatesNothing) {
  data::ReaderCounters counters;
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < 1000; ++i) {
                data::StageClock clock(counters, i % 2 == 0, nullptr, {0, 0, i});
                counters.add_sample(1);
                clock.has_read();
                clock.has_decoded();
              }
            }),
            0);
  EXPECT_EQ(counters.stats().samples, 1000);
  EXPECT_EQ(counters.stats().few_samples, 500);
}

// At logging steps: a few files of the process and of the machine, and two of each thread.
TEST(MeasureCost, TheMachineIsReadInFewTransfers) {
  measure::ResourceMeter meter(2);
  meter.sample({});
  EXPECT_LT(transfers_of([&] { meter.sample({}); }), 100);
}

// Every 10 s a sample reads free memory too: its few files, and nothing else of the machine.
TEST(MeasureCost, FreeMemoryIsReadInFewTransfers) {
  const int64_t alone = transfers_of([] { os::read_usable_memory(); });
  EXPECT_LT(alone, 100);
  measure::ResourceMeter meter(2);
  const int64_t with = transfers_of([&] { meter.sample({}); });
  const int64_t without = transfers_of([&] { meter.sample({}); });
  // Files of the kernel change their length; all facts take more than 20 files
  constexpr int64_t kNoise = 10;
  EXPECT_GT(with, without) << "the first sample reads it";
  EXPECT_LE(with - without, alone + kNoise);
}

}  // namespace
}  // namespace dtrain::train

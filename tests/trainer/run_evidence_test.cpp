// What windows of measurements say to the verdict: each field, per optimizer step.

#include "train/run_evidence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dtrain::train {
namespace {

using monitoring::StepTimes;
using Windows = std::deque<RunMeasurements::Window>;

// Two windows of 10 and 30 steps, of ranks on these hosts; nothing is used in them.
Windows windows_of(size_t ranks) {
  ResourceSample idle{.seconds = 1,
                      .cpu = 0,
                      .compute_cpu = 0,
                      .run_delay = 0,
                      .throttled = 0,
                      .host_busy = 0,
                      .host_steal = 0,
                      .host_idle = 0,
                      .host_io_wait = 0,
                      .swapped_in = 0,
                      .read_again = 0,
                      .disk_bytes = 0,
                      .major_faults = 0};
  idle.cores = 4;
  idle.host_cores = 4;
  return {{10, std::vector<ResourceSample>(ranks, idle)},
          {30, std::vector<ResourceSample>(ranks, idle)}};
}

diagnose::RunEvidence evidence(const Windows& windows, std::vector<std::string> nodes = {}) {
  const size_t ranks = windows[0].ranks.size();
  if (nodes.empty()) nodes.assign(ranks, "here");
  return evidence_of(std::vector<diagnose::Steps>(ranks, diagnose::Steps(40)), windows, nodes);
}

TEST(RunEvidence, OfALoaderIsPerStepAndOfItsOwnRank) {
  Windows windows = windows_of(2);
  for (size_t i = 0; i < 2; ++i) {
    ResourceSample& s = windows[i].ranks[1];
    s.loader.samples = 200;
    s.loader.bytes = 4000;
    s.loader.read_seconds = 2;
    s.loader.decode_seconds = 4;
    s.loader.augment_seconds = 6;
    s.loader.few_samples = 50;
    s.loader.few_seconds = 1;
    s.disk_bytes = 800;
    s.major_faults = 20;
    s.loader_threads = 3;
  }
  const diagnose::RunEvidence run = evidence(windows);
  const diagnose::LoaderUse& loader = run.ranks[1].loader;
  EXPECT_EQ(loader.threads, 3);
  EXPECT_EQ(run.ranks[0].loader.threads, 1);
  EXPECT_DOUBLE_EQ(loader.bytes, 200);
  EXPECT_DOUBLE_EQ(loader.read, 0.1);
  EXPECT_DOUBLE_EQ(loader.decode, 0.2);
  EXPECT_DOUBLE_EQ(loader.augment, 0.3);
  EXPECT_DOUBLE_EQ(loader.few_service, 2.0 / 100);
  EXPECT_DOUBLE_EQ(loader.many_service, 22.0 / 300);
  EXPECT_DOUBLE_EQ(run.ranks[1].disk_bytes, 40);
  EXPECT_DOUBLE_EQ(run.ranks[1].major_faults, 1);
  EXPECT_TRUE(std::isnan(run.ranks[0].loader.few_service)) << "too few samples";
  for (RunMeasurements::Window& window : windows) window.ranks[1].loader.few_samples = 2;
  EXPECT_TRUE(std::isnan(evidence(windows).ranks[1].loader.few_service));
  windows[0].earlier.resize(2);
  windows[0].earlier[1].loads = {
      .samples = 36, .read_seconds = 2, .few_samples = 16, .few_seconds = 2};
  EXPECT_DOUBLE_EQ(evidence(windows).ranks[1].loader.few_service, 4.0 / 20);
  EXPECT_DOUBLE_EQ(evidence(windows).ranks[1].loader.many_service, 22.0 / 416);
  EXPECT_DOUBLE_EQ(evidence(windows).ranks[1].loader.read, 0.1) << "of the windows alone";
}

// It was measured on the first steps, which are longer or shorter than those of the run.
TEST(RunEvidence, TheHeadroomIsThatOfAMeanStep) {
  const BatchArithmetic batches{.global_batch = 100, .samples = 950, .steps_per_epoch = 10};
  MeasuredSteps headroom{.steps = 4, .samples = 400, .seconds = 4};
  EXPECT_DOUBLE_EQ(cached_step_for(headroom, diagnose::Steps(9), batches), 1) << "full steps alone";
  EXPECT_DOUBLE_EQ(cached_step_for(headroom, diagnose::Steps(20), batches), 0.95);
  headroom.padded.cells = 4 * 1000;
  diagnose::Steps longer(20);
  for (StepTimes& step : longer) step.padded = {.rows = 1000, .cells = 1200};
  EXPECT_DOUBLE_EQ(cached_step_for(headroom, longer, batches), 1.2);
  EXPECT_TRUE(std::isnan(cached_step_for({}, longer, batches)));
}

TEST(RunEvidence, OfCoresIsPerStepAndOfItsOwnRank) {
  Windows windows = windows_of(2);
  for (RunMeasurements::Window& window : windows) {
    ResourceSample& s = window.ranks[1];
    s.cpu = 6;
    s.compute_cpu = 4;
    s.run_delay = 2;
    s.comm_delay = 1;
    s.compute_threads = 2;
    s.resident_bytes = 1000.0 * static_cast<double>(window.steps);
  }
  const diagnose::RunEvidence run = evidence(windows);
  const diagnose::CoreUse& cores = run.ranks[1].cores;
  EXPECT_DOUBLE_EQ(cores.cpu, 12.0 / 40);
  EXPECT_DOUBLE_EQ(cores.side_cpu, 4.0 / 40);
  EXPECT_DOUBLE_EQ(cores.run_delay, 4.0 / 40);
  EXPECT_DOUBLE_EQ(cores.comm_delay, 2.0 / 40);
  EXPECT_EQ(cores.compute_threads, 2);
  EXPECT_EQ(run.ranks[0].cores.compute_threads, 1);
  EXPECT_EQ(cores.cores, 4) << "no mask: what the launcher knows";
  ASSERT_EQ(run.ranks[1].memory.size(), 2u);
  EXPECT_EQ(run.ranks[1].memory[1].steps, 40);
  EXPECT_EQ(run.ranks[1].memory[1].bytes, 30000);
  EXPECT_TRUE(run.ranks[0].memory.empty());
}

TEST(RunEvidence, RanksThatMayUseTheSameCoresShareThem) {
  Windows windows = windows_of(3);
  windows[1].ranks[0].allowed_cores[0] = windows[1].ranks[1].allowed_cores[0] = 0b0011;
  windows[1].ranks[2].allowed_cores[0] = 0b1100;
  for (RunMeasurements::Window& window : windows) {
    for (ResourceSample& rank : window.ranks) rank.throttled = 8;  // of their one group
  }
  const diagnose::RunEvidence run = evidence(windows);
  EXPECT_EQ(run.ranks[0].cores.cores, 1);
  EXPECT_EQ(run.ranks[1].cores.cores, 1);
  EXPECT_EQ(run.ranks[2].cores.cores, 2);
  EXPECT_EQ(run.hosts[0].job_cores, 4);
  EXPECT_DOUBLE_EQ(run.ranks[0].cores.throttled, 16.0 / 40 / 4)
      << "of each core that the group ran on";
}

// A limit of two cores on a machine with many: threads were stopped on as many cores as there
// are threads.
TEST(RunEvidence, AGroupRunsOnNoMoreCoresThanItHasThreads) {
  Windows windows = windows_of(1);
  for (RunMeasurements::Window& window : windows) {
    window.ranks[0].allowed_cores[0] = ~uint64_t{0};
    window.ranks[0].throttled = 8;
    window.ranks[0].compute_threads = 3;
    window.ranks[0].loader_threads = 2;
  }
  EXPECT_DOUBLE_EQ(evidence(windows).ranks[0].cores.throttled, 16.0 / 40 / 5);
}

TEST(RunEvidence, OfAGpuHasTheTimeOfLaunches) {
  const Windows windows = windows_of(1);
  diagnose::Steps steps(40);
  for (monitoring::StepTimes& step : steps) step.launch = 0.02;
  EXPECT_NEAR(evidence_of({steps}, windows, {"here"}).ranks[0].gpu.launch, 0.02, 1e-12);
}

TEST(RunEvidence, OfAHostIsWhatItsRanksDidNotUse) {
  Windows windows = windows_of(3);
  for (RunMeasurements::Window& window : windows) {
    for (ResourceSample& rank : window.ranks) rank.cpu = 4;
    ResourceSample& first = window.ranks[0];  // as the first rank of a host saw it
    first.host_busy = 10;
    first.host_idle = 6;
    first.host_io_wait = 3;
    first.host_steal = 1;
    first.swapped_in = 400;
    first.read_again = 800;
    first.free_memory = 5000;
    window.ranks[2].host_busy = 4;
    window.ranks[2].host_cores = 8;
  }
  const diagnose::RunEvidence run = evidence(windows, {"a", "a", "b"});
  ASSERT_EQ(run.hosts.size(), 2u);
  const diagnose::HostUse &a = run.hosts[0], &b = run.hosts[1];
  EXPECT_EQ(run.ranks[1].host, 0);
  EXPECT_EQ(run.ranks[2].host, 1);
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(a.cores, 4);
  EXPECT_EQ(b.cores, 8);
  EXPECT_DOUBLE_EQ(a.others_cpu, 2 * (10 - 8) / 40.0);
  EXPECT_DOUBLE_EQ(b.others_cpu, 0);
  EXPECT_DOUBLE_EQ(a.idle, 12.0 / 40);
  EXPECT_DOUBLE_EQ(a.io_wait, 6.0 / 40);
  EXPECT_DOUBLE_EQ(a.steal, 2.0 / 40);
  EXPECT_DOUBLE_EQ(a.swapped_in, 800.0 / 40);
  EXPECT_DOUBLE_EQ(a.read_again, 1600.0 / 40);
  EXPECT_EQ(a.free_memory, 5000);
}

monitoring::GpuUse gpu(double seconds) {
  monitoring::GpuUse use;
  use.seconds = seconds;
  use.utilization = 0.9;
  use.temperature = 80;
  use.working_sm_clock = 1.2e9;
  use.highest_sm_clock = 1.9e9;
  use.slowed_by_power = 0.75 * seconds;
  use.slowed_by_heat = 0.25 * seconds;
  use.power_limit = 200;
  use.default_power_limit = 350;
  return use;
}

TEST(RunEvidence, OfAGpuIsAMeanOverItsReadings) {
  Windows windows = windows_of(1);
  ResourceSample &first = windows[0].ranks[0], &last = windows[1].ranks[0];
  first.gpu = gpu(4);
  first.gpu.utilization = 0.5;
  first.gpu.full_sm_clock = last.gpu.full_sm_clock = 1.8e9;
  last.gpu.power_limit = 200;  // no reading, in a short window
  last.gpu.default_power_limit = 350;
  first.so_far.allocator_retries = 100;
  last.so_far.allocator_retries = 103;
  last.so_far.device_peak = 7e9;
  last.link_width = 8;
  last.card_width = 16;
  last.link_generation = 3;
  last.card_generation = 4;
  last.gpu_memory = 24e9;
  last.gpu_capability = 75;
  const diagnose::GpuUse use = evidence(windows).ranks[0].gpu;
  EXPECT_DOUBLE_EQ(use.busy, 0.5);
  EXPECT_DOUBLE_EQ(use.clock, 1.2e9);
  EXPECT_DOUBLE_EQ(use.full_clock, 1.8e9);
  EXPECT_TRUE(use.full_clock_seen);
  EXPECT_DOUBLE_EQ(use.power_limited, 0.75);
  EXPECT_DOUBLE_EQ(use.heat_limited, 0.25);
  EXPECT_EQ(use.temperature, 80);
  EXPECT_EQ(use.power_limit, 200);
  EXPECT_EQ(use.default_power_limit, 350);
  EXPECT_EQ(use.memory_peak, 7e9);
  EXPECT_DOUBLE_EQ(use.allocator_retries, 3.0 / 30) << "between the ends of the two windows";
  EXPECT_EQ(use.link_width, 8);
  EXPECT_EQ(use.card_width, 16);
  EXPECT_EQ(use.link_generation, 3);
  EXPECT_EQ(use.card_generation, 4);
  EXPECT_EQ(use.memory_total, 24e9) << "of this rank's card";
  EXPECT_TRUE(use.tensor_cores);
  EXPECT_FALSE(use.bf16);
  last.gpu_capability = 80;
  EXPECT_TRUE(evidence(windows).ranks[0].gpu.bf16);
}

// A power limit that was there from the start: no reading is free of it.
TEST(RunEvidence, WithoutAFreeReadingTheFullClockIsThatOfTheCard) {
  Windows windows = windows_of(1);
  windows[0].ranks[0].gpu = gpu(4);
  const diagnose::GpuUse use = evidence(windows).ranks[0].gpu;
  EXPECT_DOUBLE_EQ(use.full_clock, 1.9e9);
  EXPECT_FALSE(use.full_clock_seen);
}

TEST(RunEvidence, OfTheLossScaleIsWhatHappenedSinceTheFirstWindow) {
  Windows windows = windows_of(1);
  windows[0].ranks[0].so_far.skipped_steps = 4;
  windows[1].ranks[0].so_far.skipped_steps = 10;
  windows[1].ranks[0].so_far.loss_scale = 0.5;
  const diagnose::LossScale scale = evidence(windows).loss_scale;
  EXPECT_DOUBLE_EQ(scale.skipped, 6.0 / 30);
  EXPECT_EQ(scale.now, 0.5);
}

// One window of all the steps between two logging steps, and what is known of those before it.
TEST(RunEvidence, OneWindowBeginsWhereThoseBeforeItEnded) {
  Windows windows = windows_of(1);
  windows.pop_front();
  ResourceSample& now = windows[0].ranks[0];
  now.resident_bytes = 5e9;
  now.so_far = {.allocator_retries = 9, .skipped_steps = 16, .loss_scale = 8};
  EXPECT_EQ(evidence(windows).loss_scale.skipped, 0) << "it may be of the warm-up";
  EXPECT_TRUE(std::isnan(evidence(windows).ranks[0].gpu.allocator_retries));
  RunMeasurements::Earlier& earlier = windows[0].earlier.emplace_back();
  earlier.totals = {.allocator_retries = 3, .skipped_steps = 4};
  earlier.steps = 300;
  earlier.memory = {{100, 1e9}, {300, 3e9}};
  earlier.spacing = 100;
  const diagnose::RunEvidence run = evidence(windows);
  EXPECT_DOUBLE_EQ(run.loss_scale.skipped, 12.0 / 30);
  EXPECT_EQ(run.loss_scale.now, 8);
  EXPECT_DOUBLE_EQ(run.ranks[0].gpu.allocator_retries, 6.0 / 30);
  ASSERT_EQ(run.ranks[0].memory.size(), 3u) << "and what there is now";
  EXPECT_EQ(run.ranks[0].memory[2].steps, 330);
  EXPECT_EQ(run.ranks[0].memory[2].bytes, 5e9);
}

TEST(RunEvidence, WithoutAWindowOnlyTheStepsAreKnown) {
  const diagnose::RunEvidence run = evidence_of({diagnose::Steps(7)}, {}, {"here"});
  EXPECT_EQ(run.ranks.at(0).steps.size(), 7u);
  EXPECT_TRUE(std::isnan(run.ranks[0].cores.run_delay));
  EXPECT_TRUE(std::isnan(run.hosts.at(0).others_cpu));
  EXPECT_TRUE(std::isnan(run.ranks[0].gpu.clock));
}

}  // namespace
}  // namespace dtrain::train

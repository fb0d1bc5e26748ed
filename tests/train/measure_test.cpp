// Steps and memory of a run measured without what surrounds its steps, with threads as ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "support/cpu_context.h"
#include "train/toy_run.h"

namespace dtrain::train {
namespace {

// What one rank has for a StepRunner, and a body that uses it.
struct Rank {
  StepRunner& steps;
  ToyTask& task;
  Record& record;
  int rank;
};

void with_steps(int ranks, const config::Config& config, ToyTask::Options toy,
                const std::function<void(Rank)>& body,
                const std::vector<trace::Recorder*>& recorders = {}, int healthy_rank = -1) {
  const testing::MemoryStore store(22, 8, 8);
  data::Splits splits;
  splits.train.resize(17);
  std::iota(splits.train.begin(), splits.train.end(), 0);
  splits.val = {17, 18, 19, 20, 21};
  dist::run_thread_world(ranks, [&](dist::MeteredCommunicator& comm) {
    at::set_num_threads(1);
    ToyTask::Options own = toy;
    if (comm.rank() == healthy_rank) own.fault = ToyTask::Fault::kNone;
    ToyTask task(own);
    const BatchArithmetic batches = batch_arithmetic(config.train, ranks, 17);
    monitoring::Sinks sinks;
    sinks.push_back(std::make_unique<Record>());
    auto& record = static_cast<Record&>(*sinks.front());
    const std::atomic<bool> never = false;
    TrainContext context =
        testing::cpu_context(config, batches, task, store, splits, comm, sinks, never);
    if (!recorders.empty()) context.recorder = recorders[static_cast<size_t>(comm.rank())];
    StepRunner steps(std::move(context));
    body({steps, task, record, comm.rank()});
  });
}

TEST(Measure, RunsStepsWithoutWhatSurroundsThem) {
  config::Config config = small(2);
  config.run.log_every = {.steps = 1};
  with_steps(2, config, {}, [](Rank rank) {
    const MeasuredSteps first = rank.steps.measure(3);  // an epoch: 8, 8 and 1 samples
    EXPECT_EQ(first.steps, 3);
    EXPECT_EQ(first.samples, 17);
    double phases = 0;
    for (const double seconds : first.phase_seconds) phases += seconds;
    EXPECT_GT(phases, 0);
    EXPECT_NEAR(first.other_seconds(), first.seconds - phases, 1e-12);
    EXPECT_GE(first.other_seconds(), 0) << "a phase cannot take longer than the step";
    EXPECT_GT(first.loader.samples, 0);
    const size_t seen = rank.task.seen.size();
    // Beyond the two epochs of the run there is no end, no evaluation and no save.
    const MeasuredSteps more = rank.steps.measure(7);
    EXPECT_EQ(more.samples, 2 * 17 + 8);
    EXPECT_GT(rank.task.seen.size(), seen);
    EXPECT_TRUE(rank.record.steps.empty());
    EXPECT_TRUE(rank.record.evals.empty());
    EXPECT_TRUE(rank.record.saved.empty());
  });
}

TEST(Measure, APhaseIsThatOfTheGivenEpoch) {
  const config::Config config = small(2);  // of two epochs, of three steps each
  with_steps(2, config, {.phases = true}, [](Rank rank) {
    const auto value = [&](const char* name) {
      return rank.task.model().named_parameters()[name].clone();
    };
    const at::Tensor weight = value("weight"), bias = value("bias");
    rank.steps.measure_phase_of(1);
    rank.steps.measure(4);
    EXPECT_TRUE(at::equal(value("weight"), weight)) << "it learns in the even epochs alone";
    EXPECT_FALSE(at::equal(value("bias"), bias));
    const int64_t moments = rank.steps.measure_memory().moments;
    const at::Tensor trained = value("bias");
    rank.steps.measure_phase_of(0);
    rank.steps.measure(4);
    EXPECT_FALSE(at::equal(value("weight"), weight));
    EXPECT_TRUE(at::equal(value("bias"), trained));
    EXPECT_GT(rank.steps.measure_memory().moments, moments) << "those of the phase before stay";
  });
}

TEST(PhasesOf, CountsTheEpochsOfEach) {
  const ToyTask task({.phases = true});
  const std::vector<RunPhase> phases = phases_of(task, 5);
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0].phase.name, "even");
  EXPECT_EQ(phases[0].first_epoch, 0);
  EXPECT_EQ(phases[0].epochs, 3);
  EXPECT_EQ(phases[1].phase.name, "odd");
  EXPECT_EQ(phases[1].first_epoch, 1);
  EXPECT_EQ(phases[1].epochs, 2);
  EXPECT_EQ(phases_of(ToyTask({}), 5).size(), 1u);
}

// A run has 3 epochs of a phase whose step takes 1 s, and one of a phase whose step takes 5 s.
TEST(MeanOverPhases, CountsEachByItsEpochs) {
  const auto phase_time = static_cast<size_t>(measure::Phase::kForward);
  MeasuredSteps quick{
      .steps = 8, .samples = 80, .seconds = 8, .padded = {80, 160}, .own_deviation = 0.1};
  MeasuredSteps slow{
      .steps = 2, .samples = 20, .seconds = 10, .padded = {100, 200}, .own_deviation = 0.5};
  quick.phase_seconds[phase_time] = 4;
  slow.phase_seconds[phase_time] = 6;
  quick.loader.samples = 90;
  slow.loader.samples = 30;
  const MeasuredSteps mean = mean_over_phases(std::array{quick, slow}, std::array{0.75, 0.25});
  EXPECT_EQ(mean.steps, 10);
  EXPECT_EQ(mean.samples, 100);
  EXPECT_DOUBLE_EQ(mean.seconds, 10 * (0.75 * 1 + 0.25 * 5));
  EXPECT_DOUBLE_EQ(mean.phase_seconds[phase_time], 10 * (0.75 * 0.5 + 0.25 * 3));
  EXPECT_DOUBLE_EQ(mean.padded.rows, 10 * (0.75 * 10 + 0.25 * 50));
  EXPECT_DOUBLE_EQ(mean.padded.cells, 10 * (0.75 * 20 + 0.25 * 100));
  EXPECT_DOUBLE_EQ(mean.own_deviation, 0.75 * 0.1 + 0.25 * 0.5);
  EXPECT_EQ(mean.loader.samples, 120);
  const MeasuredSteps same = mean_over_phases(std::array{quick}, std::array{1.0});
  EXPECT_DOUBLE_EQ(same.seconds, quick.seconds);
  EXPECT_DOUBLE_EQ(same.padded.cells, quick.padded.cells);
}

// The moments of the first phase stay in the second, which needs less of all else.
TEST(LargerWithNextPhase, HasTheMomentsOfAllPhases) {
  const StepMemory first{.weights = 5, .moments = 10, .activations = 100},
      second{.weights = 5, .moments = 20, .activations = 95};
  const StepMemory both = larger_with_next_phase(larger_with_next_phase({}, first), second);
  EXPECT_EQ(both.activations, 100);
  EXPECT_EQ(both.moments, 20);
  EXPECT_EQ(
      larger_with_next_phase(first, {.weights = 5, .moments = 20, .activations = 120}).activations,
      120);
}

TEST(Measure, MemoryIsExactAndDoesNotMoveTheRun) {
  config::Config config = small(4);
  config.train.ema = 0.9;
  std::mutex mutex;
  std::vector<StepMemory> of_ranks;
  with_steps(2, config, {.batch_norm = true}, [&](Rank rank) {
    const StepMemory memory = rank.steps.measure_memory();
    const StepMemory again = rank.steps.measure_memory();
    EXPECT_EQ(memory.activations, again.activations) << "the same work takes the same memory";
    rank.steps.measure(1);
    ASSERT_EQ(rank.task.seen.size(), 5u) << "each measurement does its work twice";
    for (size_t i = 1; i < 5; ++i)
      EXPECT_EQ(rank.task.seen[0], rank.task.seen[i]) << "the first step's, too";
    EXPECT_EQ(rank.steps.measure_memory().moments, memory.moments);
    const std::lock_guard lock(mutex);
    of_ranks.push_back(memory);
  });
  for (const StepMemory& memory : of_ranks) {
    // weight, bias, a 3×3 convolution of 3 to 2 channels, and batch norm with its statistics
    const int64_t parameters = 4 * (3 + 3 + 2 * 3 * 9 + 2 + 2);
    EXPECT_GE(memory.weights, parameters + 4 * 2 * 2);
    EXPECT_LT(memory.weights, parameters + 4 * 2 * 2 + 64) << "and the count of its batches";
    EXPECT_GE(memory.gradients, parameters);
    EXPECT_EQ(memory.moments, 2 * parameters) << "AdamW has two";
    EXPECT_EQ(memory.average, parameters);
    EXPECT_EQ(memory.batch, 4 * (3 * 8 * 8 * 4 + 3 * 4)) << "4 pictures of 8×8, and their targets";
    // Backward needs at least the outputs of the convolution and of the norm: 4 × 2 × 6 × 6 each.
    EXPECT_GE(memory.activations, 2 * 4 * (4 * 2 * 6 * 6));
    EXPECT_LT(memory.activations, 64 * 1024);
    EXPECT_EQ(memory.total(), memory.weights + memory.gradients + memory.moments + memory.average +
                                  memory.activations + memory.batch);
  }
}

// Otherwise the first of several batch sizes would seem to need more memory than it does.
TEST(Measure, WhatTheFirstPassKeepsIsNoActivation) {
  static constexpr int64_t kWorkspace = 32 << 20;
  with_steps(1, small(4), {.workspace = kWorkspace}, [](Rank rank) {
    const int64_t first = rank.steps.measure_memory().activations;
    EXPECT_GT(first, 0);
    EXPECT_LT(first, kWorkspace);
    EXPECT_EQ(first, rank.steps.measure_memory().activations);
  });
}

// What follows would wait for the device, which then no longer tells whether it waited for
// the host.
TEST(Measure, SaysWhenAllIsIssued) {
  with_steps(1, small(4), {}, [](Rank rank) {
    std::vector<size_t> seen;
    rank.steps.measure(3, [&] { seen.push_back(rank.task.seen.size()); });
    EXPECT_EQ(seen, std::vector<size_t>{rank.task.seen.size()}) << "once, after the last step";
  });
}

TEST(Measure, ActivationsGrowWithTheBatch) {
  std::vector<int64_t> activations;
  for (const int64_t batch : {2, 4, 8}) {
    with_steps(1, small(batch), {.batch_norm = true},
               [&](Rank rank) { activations.push_back(rank.steps.measure_memory().activations); });
  }
  const int64_t two_samples = activations[1] - activations[0];
  EXPECT_GT(two_samples, 0);
  EXPECT_EQ(activations[2] - activations[1], 2 * two_samples);
}

TEST(Measure, BucketsAreThoseThatAreSent) {
  config::Config config = small(4);
  // Every parameter a bucket of its own
  config.dist.bucket_mb = config.dist.first_bucket_mb = 1.0 / (1 << 20);
  with_steps(2, config, {.batch_norm = true}, [](Rank rank) {
    EXPECT_TRUE(rank.steps.time_buckets(1).empty())
        << "the first step sends its buckets at its end";
    const std::vector<dist::BucketTime> buckets = rank.steps.time_buckets(3);
    ASSERT_EQ(buckets.size(), 5u);
    int64_t bytes = 0;
    double before = 0;
    for (const dist::BucketTime& bucket : buckets) {
      bytes += bucket.bytes;
      EXPECT_GE(bucket.ready, before) << "they are full in the order of sending";
      EXPECT_LE(bucket.ready, 1);
      before = bucket.ready;
    }
    EXPECT_GT(before, 0);
    EXPECT_EQ(bytes + 16, rank.steps.measure_memory().gradients);
  });
}

TEST(Measure, TheDeviationIsThatOfTheRanksOwnTime) {
  with_steps(1, small(4), {}, [](Rank rank) {
    rank.steps.measure(2);
    EXPECT_EQ(rank.steps.measure(1).own_deviation, 0) << "of one step there is none";
    const MeasuredSteps steps = rank.steps.measure(12);
    EXPECT_GT(steps.own_deviation, 0);
    EXPECT_LT(steps.own_deviation, steps.seconds / 12);
  });
}

// No other rank waits for the one whose memory is full: both come back.
TEST(Measure, FullMemoryIsAnErrorOfTheRankAlone) {
  std::atomic<int> full = 0;
  with_steps(2, small(4), {.fault = ToyTask::Fault::kOutOfMemory}, [&](Rank rank) {
    EXPECT_THROW(rank.steps.measure_memory(), c10::OutOfMemoryError);
    ++full;
  });
  EXPECT_EQ(full, 2);
}

// With shared statistics, too: the rank that has memory measures to the end, without the one that
// has none.
TEST(Measure, ARankDoesNotWaitForTheStatisticsOfAnother) {
  config::Config config = small(4);
  config.train.sync_batch_norm = true;
  std::atomic<int64_t> activations = 0;
  std::atomic<int> full = 0;
  const auto body = [&](Rank rank) {
    if (rank.rank == 0) {
      activations = rank.steps.measure_memory().activations;
    } else {
      EXPECT_THROW(rank.steps.measure_memory(), c10::OutOfMemoryError);
      ++full;
    }
  };
  with_steps(2, config, {.fault = ToyTask::Fault::kOutOfMemory, .batch_norm = true}, body, {},
             /*healthy_rank=*/0);
  EXPECT_GT(activations, 0);
  EXPECT_EQ(full, 1);
}

TEST(StepAt, TakesTheGivenRateAndReturnsTheLoss) {
  const config::Config config = small(2);
  with_steps(2, config, {}, [](Rank rank) {
    const auto epoch_at = [&](double rate) {
      double losses = 0;
      for (int step = 0; step < 3; ++step) losses += rank.steps.step_at(rate);
      return losses;
    };
    const double first = epoch_at(1e-12);
    EXPECT_GT(first, 0);
    EXPECT_NEAR(epoch_at(1e-12) / first, 1, 0.3)
        << "a rate that changes nothing; the epoch has another order";
    for (int epoch = 0; epoch < 30; ++epoch) epoch_at(0.01);
    EXPECT_LT(epoch_at(0.01), first) << "it trains at this rate";
    const MeasuredSteps after = rank.steps.measure(2);  // with the rate of the schedule again
    EXPECT_EQ(after.steps, 2);
  });
}

TEST(Measure, ATraceHasEveryStepAndReadsEverySample) {
  std::array<trace::Recorder, 2> recorders;
  const auto counted = [](const trace::Recorder& recorder, const std::string& track,
                          trace::Kind kind) {
    int64_t count = 0;
    for (const trace::TrackEvents& one : recorder.events()) {
      EXPECT_EQ(one.left_out, 0u) << one.name;
      if (one.name != track) continue;
      count += std::count_if(one.events.begin(), one.events.end(),
                             [&](const trace::Event& e) { return e.kind == kind; });
    }
    return count;
  };
  with_steps(2, small(4), {},
             [&](Rank rank) {
               rank.steps.measure(2);
               trace::Recorder& own = recorders[static_cast<size_t>(rank.rank)];
               EXPECT_EQ(own.counted(), 0u) << "it was not started";
               own.start(0, 1000);
               const MeasuredSteps measured = rank.steps.measure(6);
               own.stop();
               EXPECT_EQ(counted(own, trace::kTrainingThread, trace::Kind::kStep), 6);
               EXPECT_EQ(counted(own, trace::kBuckets, trace::Kind::kSent), 6);
               // The reader runs ahead: a little more or less than what the steps took.
               EXPECT_GE(counted(own, "loader 0", trace::Kind::kStage), 3);
               double phases = 0;
               for (const trace::TrackEvents& track : own.events()) {
                 if (track.name != trace::kTrainingThread) continue;
                 for (const trace::Event& event : track.events)
                   phases += 1e-9 * static_cast<double>(event.end - event.begin);
               }
               EXPECT_LE(phases, measured.seconds);
               EXPECT_GT(phases, 0.5 * (measured.seconds - measured.other_seconds()));
             },
             {&recorders[0], &recorders[1]});
}

}  // namespace
}  // namespace dtrain::train

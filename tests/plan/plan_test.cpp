#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

config::Train train_of(int64_t batch_size, int64_t global_batch, int64_t accumulate = 0) {
  config::Train train;
  train.batch_size = batch_size;
  train.global_batch = global_batch;
  train.accumulate = accumulate;
  train.epochs = 2;
  return train;
}

// Computing takes a millisecond per sample; nothing else takes time.
MeasuredRun run_of(int64_t samples) {
  MeasuredRun run{
      .source = "here", .network = "toy", .precision = "fp32", .device = "cpu", .data = "d.h5"};
  run.samples = samples;
  run.prefetch = 4;
  for (const int64_t size : {1, 64}) {
    const auto n = static_cast<double>(size);
    run.batches.push_back({.samples = size,
                           .forward = 0.4e-3 * n,
                           .backward = 0.6e-3 * n,
                           .memory = {.weights = 1 << 20,
                                      .gradients = 1 << 20,
                                      .moments = 2 << 20,
                                      .activations = size << 20,
                                      .batch = size << 10}});
  }
  run.buckets = {{1 << 20, 1}};
  return run;
}

Request request(const config::Train& train, std::vector<int64_t> ranks) {
  const Interconnect links = parse_interconnect("1e-9,1e6", nullptr, false);  // as good as none
  return {.train = train,
          .ranks = std::move(ranks),
          .assumptions = {.fabric = {.inside = links.inside,
                                     .between = links.between,
                                     .ranks_per_node = 4,
                                     .library = Library::kMpi}},
          .memory_bytes = 0,
          .memory_name = ""};
}

TEST(Scaling, IsThatOfTheConfigurationUnlessAsked) {
  EXPECT_EQ(scaling_of(train_of(32, 256)), Scaling::kKeep);
  EXPECT_EQ(scaling_of(train_of(32, 0)), Scaling::kGrow);
  const config::Train kept = scaled(train_of(32, 0, 3), Scaling::kKeep);
  EXPECT_EQ(kept.global_batch, 96);
  EXPECT_EQ(kept.accumulate, 0);
  const config::Train grown = scaled(train_of(32, 256), Scaling::kGrow);
  EXPECT_EQ(grown.global_batch, 0);
  EXPECT_EQ(grown.accumulate, 8);
  EXPECT_EQ(scaled(train_of(32, 8), Scaling::kGrow).batch_size, 8);
  EXPECT_EQ(scaled(train_of(32, 256), Scaling::kKeep).global_batch, 256);
}

TEST(SizesNeeded, AreThoseOfTheMicroStepsThatOccur) {
  EXPECT_THAT(sizes_needed(train_of(32, 256), std::vector<int64_t>{2, 16, 100}, 10'000),
              ElementsAre(3, 16, 32));
  EXPECT_THAT(sizes_needed(train_of(32, 0), std::vector<int64_t>{2, 16}, 10'000), ElementsAre(32));
  EXPECT_THAT(sizes_needed(train_of(32, 50), std::vector<int64_t>{1}, 10'000), ElementsAre(25))
      << "2 × 25, not 32 + 18";
}

TEST(Plan, AKeptBatchMakesStepsShorterAndAGrowingOneMakesThemFewer) {
  const std::vector<PlanRow> kept = make_plan(run_of(6400), request(train_of(64, 64), {1, 4}));
  EXPECT_EQ(kept[1].batches.steps_per_epoch, 100);
  EXPECT_NEAR(kept[0].step.total(), 64e-3, 1e-6);
  EXPECT_NEAR(kept[1].step.total(), 16e-3, 1e-5);
  EXPECT_NEAR(kept[1].efficiency, 1, 1e-3);
  const std::vector<PlanRow> grown = make_plan(run_of(6400), request(train_of(64, 0), {1, 4}));
  EXPECT_EQ(grown[1].batches.steps_per_epoch, 25);
  EXPECT_NEAR(grown[1].step.total(), 64e-3, 1e-5);
  EXPECT_NEAR(grown[1].epoch_seconds, kept[1].epoch_seconds, 1e-3) << "the same work";
  EXPECT_EQ(kept[1].nodes, 1);
  EXPECT_EQ(make_plan(run_of(6400), request(train_of(64, 64), {5}))[0].nodes, 2);
}

TEST(Plan, TheLastStepOfAnEpochMayBeShorter) {
  const PlanRow row = make_plan(run_of(6400 + 32), request(train_of(64, 64), {1}))[0];
  EXPECT_EQ(row.batches.tail, 32);
  EXPECT_NEAR(row.epoch_seconds, 6.432, 1e-6);
  EXPECT_FALSE(row.estimated);
  EXPECT_TRUE(make_plan(run_of(6400), request(train_of(64, 64), {2}))[0].estimated)
      << "32 samples were not measured";
}

TEST(Plan, CountsWhatTravels) {
  MeasuredRun run = run_of(6400);
  run.statistics = {100, 200};
  const PlanRow row = make_plan(run, request(train_of(32, 256), {4}))[0];
  EXPECT_DOUBLE_EQ(row.sent.gradients, 2 * 3.0 / 4 * (1 << 20));
  EXPECT_DOUBLE_EQ(row.sent.statistics, 2 * 2 * 3.0 / 4 * 300) << "in each of two micro-steps";
  EXPECT_DOUBLE_EQ(row.sent.host, 3 * 40);
  EXPECT_EQ(make_plan(run, request(train_of(32, 256), {1}))[0].sent.gradients, 0);
}

TEST(Plan, MemoryIsThatOfTheMicroBatchAndWhatIsReadAhead) {
  const PlanRow row = make_plan(run_of(6400), request(train_of(64, 64), {2}))[0];
  EXPECT_NEAR(static_cast<double>(row.memory.activations), 32 << 20, 4);
  EXPECT_NEAR(static_cast<double>(row.memory.batch), 5 * (32 << 10), 8);
  EXPECT_EQ(row.memory.weights, 1 << 20);
  Request of_gpus = request(train_of(64, 64), {2});
  of_gpus.assumptions.fabric.library = Library::kNccl;
  const PlanRow on_gpu = make_plan(run_of(6400), of_gpus)[0];
  EXPECT_NEAR(static_cast<double>(on_gpu.memory.batch), 32 << 10, 8)
      << "it waits in the host's memory";
}

TEST(Plan, ComparesWithTheSmallestGpuOfTheJob) {
  Request asked = request(train_of(64, 0), {1});
  compare_with_gpus(asked, std::vector<int64_t>{80'000, 24'000, 80'000});
  EXPECT_EQ(asked.memory_bytes, 24'000);
  EXPECT_EQ(asked.memory_name, "the smallest GPU of this job");
  compare_with_gpus(asked, std::vector<int64_t>{80'000, 80'000});
  EXPECT_EQ(asked.memory_bytes, 80'000);
  EXPECT_EQ(asked.memory_name, "this GPU");
}

TEST(Plan, SaysWhatDoesNotFit) {
  Request small = request(train_of(64, 0), {1, 2});
  small.memory_bytes = 40 << 20;
  small.memory_name = "toy";
  for (const PlanRow& row : make_plan(run_of(6400), small)) {
    EXPECT_THAT(row.blocked, HasSubstr("of toy"));
    EXPECT_THAT(row.blocked, HasSubstr(": use --batch-size 32 --train.global_batch "));
    EXPECT_THAT(row.blocked, EndsWith(", or a card with more memory"));
  }
  small.smaller = {"--amp bf16", "--model.checkpointing true"};
  EXPECT_THAT(make_plan(run_of(6400), small)[0].blocked,
              EndsWith("64, --amp bf16, --model.checkpointing true, or a card with more memory"));
  Request smallest = request(train_of(1, 0), {1});
  smallest.memory_bytes = 1;
  smallest.memory_name = "toy";
  EXPECT_THAT(make_plan(run_of(6400), smallest)[0].blocked,
              EndsWith(": use a smaller network, or a card with more memory"));
  small.memory_bytes = 70 << 20;
  const PlanRow row = make_plan(run_of(6400), small)[0];
  EXPECT_THAT(row.blocked, IsEmpty());
  EXPECT_THAT(row.notes, ElementsAre(HasSubstr("nearly full")));
  // A GPU's context and libraries need memory too.
  small.assumptions.fabric.library = Library::kNccl;
  EXPECT_THAT(make_plan(run_of(6400), small)[0].blocked, HasSubstr("1.0 GiB of it for CUDA"));
}

TEST(Plan, SaysWhichRanksHaveNothingToDo) {
  EXPECT_THAT(make_plan(run_of(100), request(train_of(1, 0), {101}))[0].blocked,
              HasSubstr("101 ranks"));
  EXPECT_THAT(make_plan(run_of(100), request(train_of(1, 0), {100}))[0].blocked, IsEmpty());
  const PlanRow idle = make_plan(run_of(6400), request(train_of(64, 64), {512}))[0];
  EXPECT_THAT(idle.blocked, IsEmpty());
  EXPECT_THAT(idle.notes, ElementsAre(HasSubstr("448 of 512 ranks without a sample")));
  EXPECT_NEAR(idle.efficiency, 64.0 / 512, 1e-3);
}

TEST(Plan, SaysWhatAnUnevenBatchCosts) {
  const PlanRow uneven = make_plan(run_of(6400), request(train_of(64, 64), {10}))[0];
  EXPECT_THAT(uneven.notes, ElementsAre(HasSubstr("64 is not a multiple of 10 ranks")));
  EXPECT_THAT(uneven.notes[0], HasSubstr("9.4 % of the step")) << "7 samples instead of 6.4";
  EXPECT_NEAR(uneven.efficiency, 6.4 / 7, 1e-3);
  EXPECT_THAT(make_plan(run_of(6400), request(train_of(64, 64), {8}))[0].notes, IsEmpty());
  EXPECT_THAT(make_plan(run_of(50), request(train_of(64, 64), {1}))[0].notes,
              ElementsAre(HasSubstr("an epoch is one step")));
}

}  // namespace
}  // namespace dtrain::plan

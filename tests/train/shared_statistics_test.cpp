#include "train/shared_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/thread_world.h"

namespace dtrain::train {
namespace {

using measure::Phase;
using ::testing::ElementsAre;

data::Batch batch_with(std::vector<int64_t> ids) {
  data::Batch batch;
  batch.ids = std::move(ids);
  return batch;
}

TEST(SharedStatistics, ARankWithoutSamplesRunsOnlyIfOthersWaitForIt) {
  PhaseTracker tracker(at::kCPU);
  const data::Schema schema;
  const data::SampleSpec spec;
  dist::run_thread_world(1, [&](dist::Communicator& comm) {
    const SharedStatistics shared(&comm, schema, spec, at::kCPU, tracker);
    const SharedStatistics alone(nullptr, schema, spec, at::kCPU, tracker);
    EXPECT_TRUE(shared.runs(batch_with({})));
    EXPECT_FALSE(alone.runs(batch_with({})));
    EXPECT_TRUE(alone.runs(batch_with({4})));
  });
}

TEST(SharedStatistics, MakesASampleOfZerosAsTheLoaderWouldGiveIt) {
  PhaseTracker tracker(at::kCPU);
  data::Schema schema;
  schema.input = {data::Element::kUint8, {20, 30, 3}};
  schema.target = {data::Element::kInt64, {}};
  data::SampleSpec spec;
  spec.kind = data::SampleSpec::Kind::kImage;
  spec.image_size = 16;
  const data::Batch image =
      SharedStatistics(nullptr, schema, spec, at::kCPU, tracker).zero_sample();
  EXPECT_EQ(image.samples(), 1);
  EXPECT_TRUE(at::equal(image.inputs, at::zeros({1, 3, 16, 16})));
  EXPECT_TRUE(image.inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(image.targets, at::zeros({1}, at::kLong)));
  EXPECT_FALSE(image.lengths.defined());

  spec.kind = data::SampleSpec::Kind::kRows;
  schema.input = {data::Element::kFloat32, {data::kVariable, 7}};
  schema.target = {data::Element::kFloat32, {5}};
  const data::Batch rows = SharedStatistics(nullptr, schema, spec, at::kCPU, tracker).zero_sample();
  EXPECT_TRUE(at::equal(rows.inputs, at::zeros({1, 1, 7})));
  EXPECT_TRUE(at::equal(rows.lengths, at::ones({1}, at::kLong)));
  EXPECT_TRUE(at::equal(rows.targets, at::zeros({1, 5})));
  EXPECT_EQ(rows.rows, 1);
}

TEST(SharedStatistics, SumsOverRanksInsideTheScopeAndSaysThatItWaits) {
  const data::Schema schema;
  const data::SampleSpec spec;
  dist::run_thread_world(3, [&](dist::Communicator& comm) {
    std::vector<std::string> places;
    PhaseTracker tracker(at::kCPU, [&](const char* phase, int64_t) { places.emplace_back(phase); });
    SharedStatistics shared(&comm, schema, spec, at::kCPU, tracker);
    tracker.enter(Phase::kForward);
    at::Tensor sums = at::full({2}, 1.0 + comm.rank(), at::kDouble);
    {
      const SharedStatistics::Scope scope(shared, /*has_samples=*/comm.rank() != 1);
      ASSERT_NE(layers::current_sync_scope(), nullptr);
      EXPECT_EQ(layers::current_sync_scope()->has_samples(), comm.rank() != 1);
      layers::current_sync_scope()->reduce()(sums);
    }
    EXPECT_EQ(layers::current_sync_scope(), nullptr);
    EXPECT_TRUE(at::equal(sums, at::full({2}, 6.0, at::kDouble)));
    EXPECT_THAT(places, ElementsAre("forward", "all_reduce", "forward"));
    EXPECT_EQ(tracker.current(), Phase::kForward);
  });
}

TEST(SharedStatistics, ALoneRankKeepsItsOwnSums) {
  const data::Schema schema;
  const data::SampleSpec spec;
  dist::run_thread_world(2, [&](dist::Communicator& comm) {
    PhaseTracker tracker(at::kCPU);
    SharedStatistics shared(&comm, schema, spec, at::kCPU, tracker);
    const SharedStatistics::Scope scope(shared, /*has_samples=*/true);
    at::Tensor sums = at::full({2}, 1.0 + comm.rank(), at::kDouble);
    {
      const SharedStatistics::Alone alone(shared);
      layers::current_sync_scope()->reduce()(sums);
      EXPECT_TRUE(at::equal(sums, at::full({2}, 1.0 + comm.rank(), at::kDouble)));
    }
    layers::current_sync_scope()->reduce()(sums);
    EXPECT_TRUE(at::equal(sums, at::full({2}, 3.0, at::kDouble)));
  });
}

TEST(SharedStatistics, WithoutACommunicatorThereIsNoScope) {
  PhaseTracker tracker(at::kCPU);
  const data::Schema schema;
  const data::SampleSpec spec;
  SharedStatistics alone(nullptr, schema, spec, at::kCPU, tracker);
  const SharedStatistics::Scope scope(alone, true);
  EXPECT_EQ(layers::current_sync_scope(), nullptr);
}

}  // namespace
}  // namespace dtrain::train

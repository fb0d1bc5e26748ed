#include "train/consumption.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/thread_world.h"

namespace dtrain::train {
namespace {

data::Batch batch_of(std::vector<int64_t> ids, int64_t epoch = 0) {
  data::Batch batch;
  batch.inputs = at::zeros({static_cast<int64_t>(ids.size()), 3});
  batch.ids = std::move(ids);
  batch.epoch = epoch;
  return batch;
}

data::Batch padded_batch(int64_t samples, int64_t longest, int64_t rows) {
  data::Batch batch = batch_of(std::vector<int64_t>(static_cast<size_t>(samples), 1));
  batch.inputs = at::zeros({samples, longest, 2});
  batch.lengths = at::ones({samples}, at::kLong);
  batch.rows = rows;
  return batch;
}

TEST(PaddingWaste, IsTheShareThatIsNoRow) {
  EXPECT_EQ(padding_waste(75, 100), 0.25);
  EXPECT_TRUE(std::isnan(padding_waste(0, 0)));
}

TEST(Consumption, AddsUpTheSameHoweverSamplesAreDividedAmongRanks) {
  uint64_t one = 0;
  dist::run_thread_world(1, [&](dist::Communicator& comm) {
    Consumption all;
    all.add(batch_of({3, 1, 4, 1, 5}, 2));
    one = all.totals(comm, {}).ledger;
    EXPECT_EQ(all.samples_seen(), 5);
  });
  dist::run_thread_world(3, [&](dist::Communicator& comm) {
    Consumption mine;
    if (comm.rank() == 0) mine.add(batch_of({1, 1}, 2));
    if (comm.rank() == 1) mine.add(batch_of({5, 4, 3}, 2));
    mine.add(batch_of({}, 2));  // a micro-step without samples
    EXPECT_EQ(mine.totals(comm, {}).ledger, one);
    EXPECT_EQ(mine.samples_seen(), comm.rank() == 0 ? 2 : comm.rank() == 1 ? 3 : 0);
  });
}

TEST(Consumption, ContinuesTheLedgerOfAResumedRun) {
  dist::run_thread_world(2, [](dist::Communicator& comm) {
    Consumption before;
    before.add(batch_of({7}));
    const uint64_t saved = before.totals(comm, {}).ledger;
    Consumption after(comm.rank() == 0 ? saved : 0, /*samples_seen=*/1);
    EXPECT_EQ(after.totals(comm, {}).ledger, saved);
    EXPECT_EQ(after.samples_seen(), 1);
  });
}

TEST(Consumption, ReportsThePaddingOfAllRanksSinceTheLastReport) {
  dist::run_thread_world(2, [](dist::Communicator& comm) {
    Consumption mine;
    EXPECT_TRUE(std::isnan(mine.report(comm, {}).padding_waste));
    mine.add(padded_batch(2, 10, comm.rank() == 0 ? 20 : 10));
    // A checkpoint's: begins no new interval
    const Consumption::Totals between = mine.totals(comm, {});
    EXPECT_EQ(between.rows, 30);
    EXPECT_EQ(between.cells, 40);
    EXPECT_EQ(mine.report(comm, {}).padding_waste, 0.25);
    mine.add(padded_batch(1, 4, 2));
    EXPECT_EQ(mine.report(comm, {}).padding_waste, 0.5);
    EXPECT_EQ(mine.totals(comm, {}).cells, 48) << "totals are of the whole run";
  });
}

TEST(Consumption, TakesThePaddingOfThisRankSinceTheLastTime) {
  Consumption mine;
  mine.add(padded_batch(2, 10, 15));
  mine.add(batch_of({7}));  // without padding
  const measure::PaddedRows first = mine.take_padded();
  EXPECT_EQ(first.rows, 15);
  EXPECT_EQ(first.cells, 20);
  mine.add(padded_batch(1, 4, 2));
  EXPECT_EQ(mine.take_padded().cells, 4);
  EXPECT_EQ(mine.take_padded().cells, 0);
}

TEST(Consumption, RowsThatAreNoSequencesHaveNoPadding) {
  dist::run_thread_world(1, [](dist::Communicator& comm) {
    Consumption mine;
    data::Batch batch = batch_of({0, 1, 2});  // [N, F]
    batch.lengths = at::ones({3}, at::kLong);
    batch.rows = 3;
    mine.add(batch);
    EXPECT_TRUE(std::isnan(mine.report(comm, {}).padding_waste));
  });
}

TEST(Consumption, CountsABadSampleOnceThoughSeveralRanksMetIt) {
  dist::run_thread_world(3, [](dist::Communicator& comm) {
    Consumption mine;
    const std::set<int64_t> bad = {5, 10 + comm.rank() / 2};  // 5, 10 and 11
    for (int times = 0; times < 2; ++times) {
      const Consumption::Totals totals = mine.report(comm, bad).totals;
      EXPECT_EQ(totals.left_out, 6);
      EXPECT_EQ(totals.bad_samples, 3);
    }
  });
}

}  // namespace
}  // namespace dtrain::train

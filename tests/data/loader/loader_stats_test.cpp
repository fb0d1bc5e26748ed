// What the loader counts (loader_stats.h), and batches that are given again (replay.h).

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <thread>

#include "data/loader/loader.h"
#include "data/loader/loading.h"
#include "data/loader/replay.h"
#include "support/fake_clock.h"
#include "support/memory_store.h"
#include "support/row_store.h"

namespace dtrain::data {
namespace {

using namespace std::chrono_literals;
using testing::all_ids;
using testing::FakeClock;
using testing::MemoryStore;
using testing::options_of;
using testing::RowStore;

SampleSpec pictures(int64_t side) {
  SampleSpec spec;
  spec.image_size = side;
  spec.target_flip_sign = {-1, 1, -1};
  return spec;
}

SampleSpec rows() {
  SampleSpec spec;
  spec.kind = SampleSpec::Kind::kRows;
  return spec;
}

// A sample takes this long to read, and those from `first_held` on are held until released().
class SlowStore : public MemoryStore {
 public:
  SlowStore(int64_t samples, const FakeClock& clock, std::chrono::milliseconds time,
            int64_t first_held)
      : MemoryStore(samples, 4, 4), clock_(clock), time_(time), first_held_(first_held) {}
  void release() { held_.count_down(); }
  void read_input(int64_t id, std::span<std::byte> out) const override {
    if (id >= first_held_) held_.wait();
    clock_.advance(time_);
    MemoryStore::read_input(id, out);
  }

 private:
  const FakeClock& clock_;
  const std::chrono::milliseconds time_;
  const int64_t first_held_;
  mutable std::latch held_{1};
};

TEST(LoaderStats, CountsSamplesBytesAndStages) {
  const MemoryStore store(64, 32, 32);
  Loader loader(store, all_ids(64), pictures(256), options_of(8, 8, /*steps=*/8), {0, 1});
  while (!loader.done()) loader.next();
  const LoaderStats stats = loader.stats();
  EXPECT_EQ(stats.samples, 64);
  EXPECT_EQ(stats.bytes, 64 * (32 * 32 * 3 + 12));
  EXPECT_EQ(stats.bytes, loader.bytes_read());
  EXPECT_GT(stats.read_seconds, 0);
  EXPECT_GT(stats.decode_seconds, 0);
  EXPECT_GT(stats.augment_seconds, stats.decode_seconds)
      << "only this stage computes on every pixel";
  EXPECT_DOUBLE_EQ(stats.service_seconds(),
                   stats.read_seconds + stats.decode_seconds + stats.augment_seconds);
}

TEST(LoaderStats, RowsAreNotAugmented) {
  const RowStore store(32, /*longest=*/20, /*orders=*/false);
  Loader loader(store, all_ids(32), rows(), options_of(8, 8, /*steps=*/4), {0, 1});
  while (!loader.done()) loader.next();
  const LoaderStats stats = loader.stats();
  EXPECT_EQ(stats.samples, 32);
  EXPECT_GT(stats.read_seconds, 0);
  EXPECT_GT(stats.decode_seconds, 0) << "the check of values";
  EXPECT_EQ(stats.augment_seconds, 0);
}

TEST(LoaderStats, ASlowDiskShowsInReadAndWait) {
  const FakeClock clock;
  SlowStore store(16, clock, 5ms, /*first_held=*/0);
  LoaderOptions options = options_of(4, 4, /*steps=*/4, /*threads=*/1);
  options.clock = &clock;
  Loader loader(store, all_ids(16), pictures(4), options, {0, 1});
  std::thread disk([&] {
    while (loader.stats().wait_seconds == 0) clock.advance(1ms);  // until the consumer waits
    store.release();
  });
  loader.next();
  disk.join();
  LoaderStats stats = loader.stats();
  EXPECT_GE(stats.wait_seconds, 4 * 0.005) << "for the first batch";
  while (!loader.done()) loader.next();
  stats = loader.stats();
  EXPECT_GE(stats.read_seconds, 16 * 0.005);
  EXPECT_EQ(stats.decode_seconds, 0);
  EXPECT_EQ(stats.augment_seconds, 0);
  EXPECT_EQ(stats.full_seconds, 0);
}

TEST(LoaderStats, ASlowConsumerShowsInFull) {
  const FakeClock clock;
  const MemoryStore store(64, 4, 4);
  LoaderOptions options = options_of(4, 4, /*steps=*/-1, /*threads=*/2, /*prefetch=*/2);
  options.clock = &clock;
  Loader loader(store, all_ids(64), pictures(4), options, {0, 1});
  loader.next();
  // The second reader begins to wait when it first runs, which may be after the batches are there.
  LoaderStats before = loader.stats(), now;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  do {
    before = loader.stats();
    clock.advance(50ms);
    now = loader.stats() - before;  // of waits that go on
  } while ((now.samples > 0 || now.full_seconds < 1.9 * 0.050) &&
           std::chrono::steady_clock::now() < deadline);
  EXPECT_NEAR(now.full_seconds, 2 * 0.050, 1e-9) << "two readers";
  EXPECT_EQ(now.wait_seconds, 0);
  EXPECT_EQ(now.samples, 0);
  for (int i = 0; i < 8; ++i) {
    clock.advance(5ms);
    loader.next();
  }
  EXPECT_GT((loader.stats() - before).full_seconds, now.full_seconds) << "of waits that are over";
}

// While it waits for batches, a loader has all of its readers at work.
TEST(LoaderStats, TellsApartWhatHalfOfTheReadersLoadAlone) {
  constexpr int kBatch = 32, kSteps = 24, kOfHalf = 20;  // a batch that half of the readers load
  const FakeClock clock;
  const auto stats_of = [&](int threads, bool compare) {
    SlowStore store(kBatch * kSteps, clock, 2ms, /*first_held=*/kBatch * kOfHalf);
    LoaderOptions options = options_of(kBatch, kBatch, kSteps, threads, /*prefetch=*/4);
    options.shuffle = false;
    options.compare_readers = compare;
    options.clock = &clock;
    Loader loader(store, all_ids(kBatch * kSteps), pictures(4), options, {0, 1});
    for (int batch = 0; batch < kOfHalf; ++batch) loader.next();
    store.release();  // all readers are done with the batches before
    while (!loader.done()) loader.next();
    return loader.stats();
  };
  const LoaderStats compared = stats_of(3, true);
  EXPECT_LE(compared.few_samples, kBatch);
  EXPECT_GE(compared.few_samples, kBatch - 1)
      << "the first one may begin while others are at work for the batch before";
  EXPECT_NEAR(compared.few_seconds, 0.002 * static_cast<double>(compared.few_samples), 1e-9);
  EXPECT_LT(compared.few_seconds, compared.service_seconds() / 2);
  EXPECT_EQ(stats_of(3, false).few_samples, 0);
  EXPECT_EQ(stats_of(1, true).few_samples, 0) << "one reader is all of them";
}

// After the last batch there is nothing to make room for.
TEST(LoaderStats, TheEndIsNotFull) {
  const FakeClock clock;
  const MemoryStore store(8, 4, 4);
  LoaderOptions options = options_of(4, 4, /*steps=*/2, /*threads=*/2, /*prefetch=*/8);
  options.clock = &clock;
  Loader loader(store, all_ids(8), pictures(4), options, {0, 1});
  while (!loader.done()) loader.next();
  clock.advance(20ms);
  EXPECT_EQ(loader.stats().full_seconds, 0);
}

TEST(LoaderStats, AreSumsAndDifferences) {
  LoaderStats sum{.samples = 3,
                  .bytes = 10,
                  .read_seconds = 1,
                  .few_samples = 2,
                  .few_seconds = 3,
                  .full_seconds = 4};
  const LoaderStats more{.samples = 1,
                         .bytes = 2,
                         .read_seconds = 0.5,
                         .decode_seconds = 0.25,
                         .few_samples = 1,
                         .few_seconds = 0.5,
                         .wait_seconds = 2};
  sum += more;
  EXPECT_EQ(sum.samples, 4);
  EXPECT_EQ(sum.read_seconds, 1.5);
  EXPECT_EQ(sum.decode_seconds, 0.25);
  EXPECT_EQ(sum.few_samples, 3);
  EXPECT_EQ(sum.few_seconds, 3.5);
  const LoaderStats first = sum - more;
  EXPECT_EQ(first.bytes, 10);
  EXPECT_EQ(first.read_seconds, 1);
  EXPECT_EQ(first.few_samples, 2);
  EXPECT_EQ(first.few_seconds, 3);
  EXPECT_EQ(first.wait_seconds, 0);
  EXPECT_EQ(first.full_seconds, 4);
}

TEST(Replay, GivesWholeStepsAgainAndAgain) {
  const MemoryStore store(64, 4, 4);
  // Global batches of 10 in micro-batches of 4: three micro-steps.
  Loader loader(store, all_ids(64), pictures(4), options_of(4, 10, /*steps=*/-1), {0, 1});
  loader.seek(1);
  Replay replay(loader, 2, /*most_bytes=*/1 << 20);
  ASSERT_EQ(replay.kept(), 6u);
  EXPECT_EQ(loader.next().step, 3) << "the loader goes on behind them";
  std::vector<std::vector<int64_t>> ids;
  for (int i = 0; i < 6; ++i) {
    const Batch batch = replay.next();
    EXPECT_EQ(batch.step, 1 + i / 3);
    EXPECT_EQ(batch.micro, i % 3);
    ids.push_back(batch.ids);
  }
  for (int i = 0; i < 8; ++i) {
    const Batch batch = replay.next();
    EXPECT_EQ(batch.ids, ids[static_cast<size_t>(i % 6)]);
    ASSERT_EQ(batch.inputs.size(0), batch.samples());
    EXPECT_EQ(batch.targets[0][0].item<float>(), MemoryStore::target(batch.ids[0], 0))
        << "the same samples";
  }
}

// The batches of a step with many micro-batches may not fit into the memory of a device.
TEST(Replay, KeepsFewerBatchesWithinItsMemory) {
  const MemoryStore store(64, 4, 4);
  const auto replay_within = [&store](int64_t most_bytes) {
    Loader loader(store, all_ids(64), pictures(4), options_of(4, 10, /*steps=*/-1), {0, 1});
    return Replay(loader, 2, most_bytes);
  };
  Replay one = replay_within(1);
  ASSERT_EQ(one.kept(), 1u) << "never none";
  const Batch first = one.next();
  const auto bytes = static_cast<int64_t>(first.inputs.nbytes() + first.targets.nbytes());
  EXPECT_EQ(replay_within(2 * bytes).kept(), 2u);
  EXPECT_EQ(replay_within(bytes).kept(), 1u);
  for (int i = 1; i < 13; ++i) {  // the order of the steps stays
    const Batch batch = one.next();
    EXPECT_EQ(batch.step, i / 3 % 2);
    EXPECT_EQ(batch.micro, i % 3);
    EXPECT_EQ(batch.micro_steps, 3);
    EXPECT_EQ(batch.global_samples, 10);
    EXPECT_EQ(batch.ids, first.ids);
    EXPECT_TRUE(batch.inputs.is_same(first.inputs)) << "one tensor";
  }
}

}  // namespace
}  // namespace dtrain::data

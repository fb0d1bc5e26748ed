#include "data/loader/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "core/error.h"
#include "data/loader/loading.h"
#include "data/order/ledger.h"
#include "support/host_stage.h"
#include "support/memory_store.h"

namespace dtrain::data {
namespace {

using dtrain::testing::all_ids;
using dtrain::testing::error_of_next;
using dtrain::testing::HostStage;
using dtrain::testing::MemoryStore;
using dtrain::testing::options_of;
using ::testing::HasSubstr;

SampleSpec full_spec(int64_t side) {
  SampleSpec spec;
  spec.image_size = side;
  spec.target_flip_sign = {-1, 1, -1};
  spec.hflip = true, spec.crop_scale = 0.6f;
  spec.brightness = spec.contrast = spec.saturation = 0.3f, spec.hue = 0.1f;
  return spec;
}

struct Sample {
  at::Tensor input, target;
};
using Key = std::pair<int64_t, int64_t>;  // epoch, id

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.equal(b);
}

void collect(const Batch& batch, std::map<Key, Sample>& samples) {
  for (int64_t i = 0; i < batch.samples(); ++i) {
    const Key key{batch.epoch, batch.ids[static_cast<size_t>(i)]};
    ASSERT_TRUE(
        samples.emplace(key, Sample{batch.inputs[i].clone(), batch.targets[i].clone()}).second)
        << "twice";
  }
}

int count_threads() {
  int threads = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++threads;
  return threads;
}

// For any number of ranks and threads, micro-batch size and read-ahead depth, a step consumes the
// same samples, augmented to the same bits.
TEST(Loader, AStepIsTheSameForAnyWorldSize) {
  const MemoryStore store(37, 12, 12);
  constexpr int64_t global = 10, steps = 9;  // 4 steps per epoch, the last with 7
  std::vector<std::multiset<int64_t>> expected;
  std::map<Key, Sample> expected_samples;
  uint64_t expected_ledger = 0;
  struct World {
    int size;
    int64_t batch;
    int threads, prefetch;
  };
  for (const World& world :
       {World{1, 10, 1, 1}, World{1, 3, 3, 4}, World{2, 5, 2, 2}, World{3, 2, 5, 1},
        World{4, 32, 1, 4}, World{7, 1, 2, 3}, World{12, 4, 2, 2}}) {
    SCOPED_TRACE(::testing::Message()
                 << world.size << " ranks, batch " << world.batch << ", threads " << world.threads);
    std::vector<std::multiset<int64_t>> used(steps);
    std::map<Key, Sample> samples;
    std::vector<int64_t> micro_steps(steps, 0);
    Ledger ledger;
    for (int rank = 0; rank < world.size; ++rank) {
      Loader loader(store, all_ids(37), full_spec(8),
                    options_of(world.batch, global, steps, world.threads, world.prefetch),
                    {rank, world.size});
      EXPECT_EQ(loader.steps_per_epoch(), 4);
      int64_t step = 0, micro = 0;
      while (!loader.done()) {
        const Batch batch = loader.next();
        ASSERT_EQ(batch.step, step);
        ASSERT_EQ(batch.micro, micro);
        ASSERT_EQ(batch.epoch, step / 4);
        ASSERT_EQ(batch.global_samples, step % 4 == 3 ? 7 : 10);
        ASSERT_LE(batch.samples(), world.batch);
        ASSERT_EQ(batch.inputs.sizes(), at::IntArrayRef({batch.samples(), 3, 8, 8}));
        ASSERT_EQ(batch.targets.sizes(), at::IntArrayRef({batch.samples(), 3}));
        ASSERT_TRUE(batch.inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
        auto& agreed = micro_steps[static_cast<size_t>(step)];
        if (rank == 0) agreed = batch.micro_steps;
        ASSERT_EQ(batch.micro_steps, agreed) << "ranks disagree on the number of micro-steps";
        for (int64_t id : batch.ids) {
          used[static_cast<size_t>(step)].insert(id);
          ledger.add(batch.epoch, id);
        }
        collect(batch, samples);
        if (++micro == batch.micro_steps) ++step, micro = 0;
      }
      EXPECT_EQ(step, steps);
    }
    if (expected.empty()) {
      expected = used, expected_samples = samples, expected_ledger = ledger.value();
      std::set<int64_t> epoch;
      for (int64_t s = 0; s < 4; ++s) epoch.insert(used[size_t(s)].begin(), used[size_t(s)].end());
      EXPECT_EQ(epoch.size(), 37u) << "an epoch covers all samples";
      EXPECT_NE(used[0], used[4]) << "each epoch has another order";
    }
    EXPECT_EQ(used, expected);
    EXPECT_EQ(ledger.value(), expected_ledger);
    ASSERT_EQ(samples.size(), expected_samples.size());
    for (const auto& [key, sample] : samples) {
      ASSERT_TRUE(same_bits(sample.input, expected_samples.at(key).input))
          << "sample " << key.second;
      ASSERT_TRUE(same_bits(sample.target, expected_samples.at(key).target))
          << "sample " << key.second;
    }
  }
}

TEST(Loader, FewerSamplesThanRanksGivesEmptyBatches) {
  const MemoryStore store(2, 4, 4);
  int64_t samples = 0, empty = 0;
  for (int rank = 0; rank < 5; ++rank) {
    Loader loader(store, all_ids(2), full_spec(6), options_of(4, 20, 3), {rank, 5});
    while (!loader.done()) {
      const Batch batch = loader.next();
      samples += batch.samples();
      empty += batch.samples() == 0;
      EXPECT_EQ(batch.micro_steps, 1);
      EXPECT_EQ(batch.inputs.sizes(), at::IntArrayRef({batch.samples(), 3, 6, 6}));
      EXPECT_EQ(batch.targets.sizes(), at::IntArrayRef({batch.samples(), 3}));
    }
  }
  EXPECT_EQ(samples, 2 * 3);
  EXPECT_EQ(empty, 3 * 3);
}

TEST(Loader, EvaluationKeepsTheOrderAndThePixels) {
  const MemoryStore store(7, 5, 5);
  SampleSpec spec = full_spec(5);
  LoaderOptions options = options_of(3, 3, 3);
  options.shuffle = options.augment = false;
  Loader loader(store, {6, 4, 2, 0, 1, 3, 5}, spec, options, {0, 1});
  std::vector<int64_t> order;
  while (!loader.done()) {
    const Batch batch = loader.next();
    for (int64_t i = 0; i < batch.samples(); ++i) {
      const int64_t id = batch.ids[static_cast<size_t>(i)];
      order.push_back(id);
      for (size_t c = 0; c < 3; ++c) {
        const float byte = static_cast<float>(store.pixel(id, (2 * 5 + 3) * 3 + c));
        EXPECT_EQ(batch.inputs[i][int64_t(c)][2][3].item<float>(),
                  (byte / 255.0f - spec.mean[c]) / spec.std[c]);
        EXPECT_EQ(batch.targets[i][int64_t(c)].item<float>(), MemoryStore::target(id, c));
      }
    }
  }
  EXPECT_EQ(order, (std::vector<int64_t>{6, 4, 2, 0, 1, 3, 5}));
  EXPECT_EQ(loader.bytes_read(), 7 * (5 * 5 * 3 + 3 * 4));
}

// A flip negates the targets that the spec names, and only those of flipped samples.
TEST(Loader, FlipsTargetsWithTheirImages) {
  const MemoryStore store(40, 4, 4);
  SampleSpec spec;
  spec.image_size = 4, spec.hflip = true, spec.target_flip_sign = {-1, 1, -1};
  Loader loader(store, all_ids(40), spec, options_of(40, 40, 1), {0, 1});
  const Batch batch = loader.next();
  int flipped = 0;
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t id = batch.ids[static_cast<size_t>(i)];
    const float left =
        (static_cast<float>(store.pixel(id, 0)) / 255.0f - spec.mean[0]) / spec.std[0];
    const bool mirrored = batch.inputs[i][0][0][0].item<float>() != left;
    EXPECT_EQ(batch.targets[i][0].item<float>(), MemoryStore::target(id, 0) * (mirrored ? -1 : 1));
    EXPECT_EQ(batch.targets[i][1].item<float>(), MemoryStore::target(id, 1));
    EXPECT_EQ(batch.targets[i][2].item<float>(), MemoryStore::target(id, 2) * (mirrored ? -1 : 1));
    flipped += mirrored;
  }
  EXPECT_TRUE(5 < flipped && flipped < 35) << flipped;
}

// Classes (int64, one number per sample) do not change when the image is flipped.
TEST(Loader, AugmentationDoesNotChangeClasses) {
  MemoryStore store(40, 4, 4);
  store.use_classes();
  SampleSpec spec = full_spec(4);
  spec.target_flip_sign = {};
  for (const bool staged : {false, true}) {
    const LoaderOptions options = options_of(7, 20, 2);
    auto stage =
        staged ? std::make_unique<HostStage>(StageOptions{spec, {4, 4}, 7, 0}, 1) : nullptr;
    Loader loader(store, all_ids(40), spec, options, {0, 1}, std::move(stage));
    while (!loader.done()) {
      const Batch batch = loader.next();
      ASSERT_EQ(batch.targets.sizes(), at::IntArrayRef({batch.samples()}));
      ASSERT_EQ(batch.targets.scalar_type(), at::kLong);
      EXPECT_FALSE(batch.lengths.defined());
      for (int64_t i = 0; i < batch.samples(); ++i) {
        EXPECT_EQ(batch.targets[i].item<int64_t>(),
                  MemoryStore::class_of(batch.ids[static_cast<size_t>(i)]));
      }
    }
  }
}

TEST(Loader, EvaluationReadsTheCenterWithoutResampling) {
  const MemoryStore store(3, 8, 10);
  SampleSpec spec = full_spec(6);
  spec.centre_share = 0.75f;  // 6 of 8 pixels
  LoaderOptions options = options_of(3, 3, 1);
  options.shuffle = options.augment = false;
  Loader loader(store, all_ids(3), spec, options, {0, 1});
  const Batch batch = loader.next();
  for (int64_t y = 0; y < 6; ++y) {
    for (int64_t x = 0; x < 6; ++x) {
      const float byte = static_cast<float>(store.pixel(2, size_t(((y + 1) * 10 + x + 2) * 3 + 1)));
      ASSERT_EQ(batch.inputs[2][1][y][x].item<float>(),
                (byte / 255.0f - spec.mean[1]) / spec.std[1]);
    }
  }
}

// One of 30 samples cannot be read and one has a wrong checksum: both are left out, and the others
// do not change.
TEST(Loader, SkipsBadImagesAndCountsThem) {
  MemoryStore store(30, 9, 11), good(30, 9, 11);
  store.fails_at = 17;
  store.rotten = 4;
  const SampleSpec spec = full_spec(8);
  for (const bool staged : {false, true}) {
    LoaderOptions options = options_of(4, 10, 6, 3);
    options.verify = Verify::kAlways, options.skip_bad = true;
    auto stage =
        staged ? std::make_unique<HostStage>(StageOptions{spec, {9, 11}, 4, 0}, 1) : nullptr;
    Loader loader(store, all_ids(30), spec, options, {0, 1}, std::move(stage));
    Loader whole(good, all_ids(30), spec, options, {0, 1});
    std::map<Key, Sample> samples, expected;
    while (!loader.done()) {
      const Batch batch = loader.next();
      ASSERT_EQ(batch.inputs.sizes(), at::IntArrayRef({batch.samples(), 3, 8, 8}));
      ASSERT_EQ(batch.targets.sizes(), at::IntArrayRef({batch.samples(), 3}));
      ASSERT_TRUE(batch.inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_EQ(batch.global_samples, 10) << "as planned";
      collect(batch, samples);
      collect(whole.next(), expected);
    }
    EXPECT_EQ(loader.bad_ids().size(), 2u) << "in two epochs";
    EXPECT_EQ(whole.bad_ids().size(), 0u);
    EXPECT_EQ(samples.size(), 56u);
    for (const auto& [key, sample] : expected) {
      if (key.second == 17 || key.second == 4) {
        EXPECT_EQ(samples.count(key), 0u);
        continue;
      }
      ASSERT_TRUE(same_bits(samples.at(key).input, sample.input)) << "sample " << key.second;
      ASSERT_TRUE(same_bits(samples.at(key).target, sample.target)) << "sample " << key.second;
    }
  }
}

TEST(Loader, ABatchOfOnlyBadSamplesIsEmpty) {
  MemoryStore store(3, 4, 4);
  store.throws_at = 1;
  LoaderOptions options = options_of(1, 1, 3);
  options.shuffle = false, options.skip_bad = true;
  Loader loader(store, all_ids(3), full_spec(5), options, {0, 1});
  EXPECT_EQ(loader.next().samples(), 1);
  const Batch empty = loader.next();
  EXPECT_EQ(empty.samples(), 0);
  EXPECT_EQ(empty.inputs.sizes(), at::IntArrayRef({0, 3, 5, 5}));
  EXPECT_EQ(empty.targets.sizes(), at::IntArrayRef({0, 3}));
  EXPECT_EQ(loader.next().ids, std::vector<int64_t>{2});
}

TEST(Loader, SeekEqualsSkipping) {
  const MemoryStore store(23, 8, 8);
  const auto load_until = [](Loader& loader, int64_t last_step, std::vector<Batch>& batches) {
    do batches.push_back(loader.next());
    while (batches.back().step != last_step ||
           batches.back().micro != batches.back().micro_steps - 1);
  };
  std::vector<Batch> all, parts;
  Loader straight(store, all_ids(23), full_spec(8), options_of(2, 6, -1), {1, 2});
  load_until(straight, 12, all);
  Loader jumping(store, all_ids(23), full_spec(8), options_of(2, 6, -1, 3), {1, 2});
  // Its threads are reading ahead when it seeks, forward and then back
  load_until(jumping, 1, parts);
  jumping.seek(9);
  load_until(jumping, 12, parts);
  jumping.seek(5);
  load_until(jumping, 7, parts);
  std::set<int64_t> steps;
  for (const Batch& batch : parts) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const Batch& b) {
      return b.step == batch.step && b.micro == batch.micro;
    });
    ASSERT_NE(same, all.end());
    EXPECT_EQ(batch.ids, same->ids);
    EXPECT_EQ(batch.epoch, same->epoch);
    EXPECT_TRUE(same_bits(batch.inputs, same->inputs));
    EXPECT_TRUE(same_bits(batch.targets, same->targets));
    steps.insert(batch.step);
  }
  EXPECT_EQ(steps, (std::set<int64_t>{0, 1, 5, 6, 7, 9, 10, 11, 12}));
}

TEST(Loader, StopsAfterItsSteps) {
  const MemoryStore store(8, 4, 4);
  Loader loader(store, all_ids(8), full_spec(4), options_of(4, 4, 3), {0, 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(loader.done());
    loader.next();
  }
  EXPECT_TRUE(loader.done());
  EXPECT_THROW(loader.next(), Error);
  loader.seek(2);
  EXPECT_FALSE(loader.done());
  EXPECT_EQ(loader.next().step, 2);
  EXPECT_TRUE(loader.done());
  loader.seek(3);
  EXPECT_TRUE(loader.done());
}

TEST(Loader, AFailingSampleIsNamedInOrderAndNothingHangs) {
  for (int threads : {1, 4}) {
    MemoryStore store(30, 4, 4);
    store.fails_at = 17;
    LoaderOptions options = options_of(5, 5, 6, threads);
    options.shuffle = false;
    Loader loader(store, all_ids(30), full_spec(4), options, {0, 1});
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(loader.next().step, i) << "the batches before it are good";
    EXPECT_THAT(error_of_next(loader), HasSubstr("memory.h5#17"));
    EXPECT_THAT(error_of_next(loader), HasSubstr("memory.h5#17")) << "again";
    loader.seek(4);
    EXPECT_EQ(loader.next().step, 4) << "it can continue after a seek";
  }
}

TEST(Loader, AnErrorOfAnotherTypeNamesTheSample) {
  MemoryStore store(10, 4, 4);
  store.throws_at = 3;
  Loader loader(store, all_ids(10), full_spec(4), options_of(5, 5, 2), {0, 1});
  const std::string message = error_of_next(loader);
  EXPECT_THAT(message, HasSubstr("memory.h5#3"));
  EXPECT_THAT(message, HasSubstr("not an error of dtrain"));
}

TEST(Loader, VerifyFindsTheSampleWithAWrongChecksum) {
  MemoryStore store(10, 4, 4);
  store.rotten = 7;
  LoaderOptions options = options_of(5, 5, 2);
  Loader blind(store, all_ids(10), full_spec(4), options, {0, 1});
  EXPECT_EQ(error_of_next(blind), "no error");
  for (const Verify verify : {Verify::kAlways, Verify::kFirstEpoch}) {
    options.verify = verify;
    Loader careful(store, all_ids(10), full_spec(4), options, {0, 1});
    EXPECT_THAT(error_of_next(careful), HasSubstr("memory.h5#7: the checksum does not match"));
  }
  store.rotten.reset();
  Loader good(store, all_ids(10), full_spec(4), options, {0, 1});
  EXPECT_EQ(error_of_next(good), "no error");
}

TEST(Loader, ComparesTheFirstEpochAlone) {
  MemoryStore store(10, 4, 4);
  LoaderOptions options = options_of(5, 5, 4);
  options.verify = Verify::kFirstEpoch;
  Loader loader(store, all_ids(10), full_spec(4), options, {0, 1});
  while (!loader.done()) loader.next();
  EXPECT_EQ(loader.stats().samples, 20);
  EXPECT_EQ(loader.stats().compared, 10) << "which takes less than the budget has at the start";
  EXPECT_EQ(loader.stats().not_compared, 0);

  store.rotten = 7;
  Loader resumed(store, all_ids(10), full_spec(4), options, {0, 1});
  resumed.seek(2);
  EXPECT_EQ(error_of_next(resumed), "no error");
  // Which samples are left out must not depend on time.
  options.skip_bad = true;
  Loader skipping(store, all_ids(10), full_spec(4), options, {0, 1});
  while (!skipping.done()) skipping.next();
  EXPECT_TRUE(skipping.bad_ids().empty());
  EXPECT_EQ(skipping.stats().compared, 0);
}

TEST(Loader, NumbersClassesAsTheNetworkDoes) {
  MemoryStore store(10, 4, 4);
  store.use_classes();
  SampleSpec spec = full_spec(4);
  spec.target_flip_sign = {};
  spec.classes = 20;
  spec.class_numbers = {13, 11, 0, 7, 19};  // of the classes 0 to 4 of the file
  LoaderOptions options = options_of(5, 5, 2);
  options.shuffle = false,
  options.verify = Verify::kAlways;  // the checksum is of the file's numbers
  Loader loader(store, all_ids(10), spec, options, {0, 1});
  for (int64_t batch = 0; batch < 2; ++batch) {
    const Batch& got = loader.next();
    for (int64_t i = 0; i < 5; ++i)
      EXPECT_EQ(got.targets[i].item<int64_t>(), spec.class_numbers[static_cast<size_t>(i)]);
  }
}

TEST(Loader, RefusesUnsuitableSamples) {
  const auto refusal = [](const Store& store, std::vector<int64_t> ids,
                          SampleSpec spec) -> std::string {
    try {
      Loader(store, std::move(ids), std::move(spec), options_of(2, 2, 1), {0, 1});
    } catch (const DataError& error) {
      return error.what();
    }
    return "accepted";
  };
  MemoryStore store(4, 4, 4);
  EXPECT_EQ(refusal(store, all_ids(4), full_spec(4)), "accepted");
  EXPECT_THAT(refusal(store, {}, full_spec(4)), HasSubstr("no samples"));
  EXPECT_THAT(refusal(store, {0, 4}, full_spec(4)),
              HasSubstr("memory.h5#4: the split names a sample outside 0 to 3"));
  EXPECT_THAT(refusal(store, {-1}, full_spec(4)), HasSubstr("memory.h5#-1"));
  SampleSpec other = full_spec(4);
  other.target_flip_sign = {-1};
  EXPECT_THAT(refusal(store, all_ids(4), other),
              HasSubstr("a flip needs a sign for each of 3 elements"));
  MemoryStore classes(4, 4, 4);
  classes.use_classes();
  EXPECT_THAT(refusal(classes, all_ids(4), full_spec(4)), HasSubstr("the task gives 3"));
  other.target_flip_sign = {};
  EXPECT_EQ(refusal(classes, all_ids(4), other), "accepted");
  EXPECT_THAT(refusal(store, all_ids(4), other), HasSubstr("the task gives 0"));
  other.kind = SampleSpec::Kind::kRows;
  EXPECT_THAT(refusal(store, all_ids(4), other),
              HasSubstr("samples of uint8 [4, 4, 3] are not rows"));
  store.schema_to_change().input.shape = {4, 4};
  EXPECT_THAT(refusal(store, all_ids(4), full_spec(4)),
              HasSubstr("samples of uint8 [4, 4] are not RGB images"));
}

TEST(Loader, CanBeDestroyedWhileItsThreadsAreBlocked) {
  const int before = count_threads();
  for (int threads : {1, 3}) {
    MemoryStore store(1000, 4, 4);
    store.close_gate();
    std::thread opener;
    {
      Loader loader(store, all_ids(1000), full_spec(4), options_of(100, 100, -1, threads), {0, 1});
      store.wait_for_reads_at_gate(threads);
      EXPECT_EQ(loader.queue_depth(), 0);
      opener = std::thread([&] { store.open_gate(); });
    }
    opener.join();
  }
  // A thread that was joined may be in /proc for a moment longer.
  for (int tries = 0; count_threads() != before && tries < 1000; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(count_threads(), before);
}

TEST(Loader, ReadsAheadAndCounts) {
  const MemoryStore store(64, 4, 4);
  Loader loader(store, all_ids(64), full_spec(4), options_of(4, 4, -1, 2, 3), {0, 1});
  loader.next();
  while (loader.queue_depth() < 3) std::this_thread::yield();
  EXPECT_EQ(loader.bytes_read(), 4 * 4 * (4 * 4 * 3 + 12))
      << "one batch taken and three read ahead";
  loader.next();
  while (loader.queue_depth() < 3) std::this_thread::yield();
  EXPECT_EQ(loader.bytes_read(), 5 * 4 * (4 * 4 * 3 + 12))
      << "one more for the batch that was taken";
}

// A copy to the device may still read them: it is the stage that waits for it.
TEST(Loader, ItsBlocksOutliveTheStage) {
  const MemoryStore store(29, 9, 11);
  const SampleSpec spec = full_spec(8);
  int64_t freed = -1, allocated = 0;
  {
    auto stage = std::make_unique<HostStage>(StageOptions{spec, {9, 11}, 3, 0}, /*lag=*/0);
    HostStage& seen = *stage;
    seen.freed_before_the_end = &freed;
    Loader loader(store, all_ids(29), spec, options_of(3, 7, 14), {0, 1}, std::move(stage));
    while (!loader.done()) loader.next();
    allocated = seen.allocated;
  }
  EXPECT_GT(allocated, 0);
  EXPECT_EQ(freed, 0);
}

// Loading through a device stage (blocks, copies, delayed reuse) gives the same batches as loading
// on the CPU.
TEST(Loader, ADeviceStageGivesTheSameBatches) {
  const MemoryStore store(29, 9, 11);
  const SampleSpec spec = full_spec(8);
  for (int prefetch : {1, 3}) {
    for (int lag : {0, 1, 2, 1000}) {
      SCOPED_TRACE(::testing::Message() << "prefetch " << prefetch << ", lag " << lag);
      const LoaderOptions options = options_of(3, 7, 14, 2, prefetch);
      Loader plain(store, all_ids(29), spec, options, {0, 2});
      auto stage = std::make_unique<HostStage>(StageOptions{spec, {9, 11}, 3, 0}, lag);
      const HostStage& seen = *stage;
      Loader staged(store, all_ids(29), spec, options, {0, 2}, std::move(stage));
      for (int64_t from : {0, 5}) {
        plain.seek(from);
        staged.seek(from);
        while (!plain.done()) {
          std::string calls;
          const auto arrived = [&] { calls += "arrived "; };
          const auto copied = [&] { calls += "copied "; };
          const Batch a = plain.next(arrived, copied);
          EXPECT_EQ(calls, "") << "without a stage there is no copy";
          const Batch b = staged.next(arrived, copied);
          EXPECT_EQ(calls, b.samples() > 0 ? "arrived copied " : "");
          ASSERT_EQ(a.ids, b.ids);
          ASSERT_EQ(a.step, b.step);
          ASSERT_TRUE(same_bits(a.inputs, b.inputs));
          ASSERT_TRUE(same_bits(a.targets, b.targets));
          ASSERT_TRUE(b.inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
        }
        EXPECT_TRUE(staged.done());
      }
      EXPECT_EQ(seen.waits > 0, lag == 1000)
          << "the host waits only when all blocks are being copied";
    }
  }
}

}  // namespace
}  // namespace dtrain::data

// The loader with rows: padded batches, lengths, length windows, samples left out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/error.h"
#include "data/loader/loader.h"
#include "data/loader/loading.h"
#include "data/order/ledger.h"
#include "support/host_stage.h"
#include "support/row_store.h"

namespace dtrain::data {
namespace {

using dtrain::testing::all_ids;
using dtrain::testing::error_of_next;
using dtrain::testing::HostStage;
using dtrain::testing::options_of;
using dtrain::testing::RowStore;
using ::testing::HasSubstr;

constexpr int64_t kColumns = RowStore::kColumns;

SampleSpec rows_spec(int64_t length_window = 0) {
  SampleSpec spec;
  spec.kind = SampleSpec::Kind::kRows;
  spec.length_window = length_window;
  return spec;
}

std::unique_ptr<HostStage> stage_of(int lag) {
  return std::make_unique<HostStage>(StageOptions{}, lag);
}

// Checks that every value of the batch is the sample's value or padding.
void expect_whole(const Batch& batch, const RowStore& store) {
  const bool orders = store.schema().target.variable();
  const int64_t samples = batch.samples();
  int64_t longest = 0, rows = 0;
  for (int64_t id : batch.ids)
    longest = std::max(longest, store.input_rows(id)), rows += store.input_rows(id);
  ASSERT_EQ(batch.inputs.sizes(), at::IntArrayRef({samples, longest, kColumns}));
  ASSERT_EQ(batch.inputs.scalar_type(), at::kFloat);
  ASSERT_TRUE(batch.inputs.is_contiguous());
  ASSERT_EQ(batch.lengths.sizes(), at::IntArrayRef({samples}));
  ASSERT_EQ(batch.lengths.scalar_type(), at::kLong);
  ASSERT_TRUE(batch.sample_ids.equal(at::tensor(batch.ids, at::kLong)));
  ASSERT_EQ(batch.targets.scalar_type(), at::kLong);
  ASSERT_EQ(batch.targets.sizes(),
            orders ? at::IntArrayRef({samples, longest}) : at::IntArrayRef({samples}));
  ASSERT_EQ(batch.rows, rows);
  for (int64_t b = 0; b < samples; ++b) {
    const int64_t id = batch.ids[static_cast<size_t>(b)], length = store.input_rows(id);
    ASSERT_EQ(batch.lengths[b].item<int64_t>(), length);
    const at::Tensor values = batch.inputs[b].contiguous();
    for (int64_t i = 0; i < longest * kColumns; ++i) {
      ASSERT_EQ(values.data_ptr<float>()[i], i < length * kColumns ? RowStore::value(id, i) : 0.0f)
          << "id " << id;
    }
    const at::Tensor targets =
        orders ? batch.targets[b].contiguous() : batch.targets[b].reshape({1});
    for (int64_t i = 0; i < targets.numel(); ++i) {
      ASSERT_EQ(targets.data_ptr<int64_t>()[i],
                !orders || i < length ? RowStore::target(id, i) : -1);
    }
  }
}

// For any length window and world size, a step consumes the same samples, and an epoch consumes
// each sample once.
TEST(RowsLoader, AStepIsTheSameForAnyWorldSize) {
  for (const bool orders : {true, false}) {
    const RowStore store(53, 20, orders);
    constexpr int64_t global = 10, steps = 12;  // 6 steps per epoch, the last with 3
    for (const int64_t window : {0, 1, 2, 4, 100}) {
      std::vector<std::multiset<int64_t>> expected;
      uint64_t expected_ledger = 0;
      struct World {
        int size;
        int64_t batch;
        int threads, prefetch;
      };
      for (const World& world : {World{1, 10, 1, 1}, World{1, 3, 3, 4}, World{2, 5, 2, 2},
                                 World{4, 32, 1, 4}, World{7, 1, 2, 3}, World{12, 4, 2, 2}}) {
        SCOPED_TRACE(::testing::Message() << "window " << window << ", " << world.size << " ranks");
        std::vector<std::multiset<int64_t>> used(steps);
        Ledger ledger;
        for (int rank = 0; rank < world.size; ++rank) {
          Loader loader(store, all_ids(53), rows_spec(window),
                        options_of(world.batch, global, steps, world.threads, world.prefetch),
                        {rank, world.size});
          while (!loader.done()) {
            const Batch batch = loader.next();
            expect_whole(batch, store);
            if (HasFatalFailure()) return;
            ASSERT_EQ(batch.global_samples, batch.step % 6 == 5 ? 3 : 10);
            for (int64_t id : batch.ids) {
              used[static_cast<size_t>(batch.step)].insert(id);
              ledger.add(batch.epoch, id);
            }
          }
        }
        if (expected.empty()) {
          expected = used, expected_ledger = ledger.value();
          for (int64_t first : {0, 6}) {
            std::set<int64_t> epoch;
            for (int64_t s = first; s < first + 6; ++s)
              epoch.insert(used[size_t(s)].begin(), used[size_t(s)].end());
            EXPECT_EQ(epoch.size(), 53u) << "an epoch covers all samples";
          }
        }
        EXPECT_EQ(used, expected);
        EXPECT_EQ(ledger.value(), expected_ledger);
      }
    }
  }
}

TEST(RowsLoader, LengthWindowsReducePadding) {
  const RowStore store(640, 100, false);
  const auto waste = [&](int64_t window) {
    Loader loader(store, all_ids(640), rows_spec(window), options_of(16, 32, 20), {0, 1});
    double rows = 0, places = 0;
    while (!loader.done()) {
      const Batch batch = loader.next();
      rows += static_cast<double>(batch.rows);
      places += static_cast<double>(batch.inputs.size(0) * batch.inputs.size(1));
    }
    return 1 - rows / places;
  };
  EXPECT_GT(waste(0), 0.35);
  EXPECT_LT(waste(20), 0.05);
}

// The padded lengths of the batches of a loader, which have to be those of `plain` with
// more padding.
std::set<int64_t> lengths_beside(Loader& plain, Loader& rounded) {
  std::set<int64_t> lengths;
  while (!plain.done()) {
    const Batch a = plain.next(), b = rounded.next();
    EXPECT_EQ(a.ids, b.ids);
    EXPECT_EQ(a.rows, b.rows);
    EXPECT_TRUE(a.lengths.equal(b.lengths));
    const int64_t longest = a.inputs.size(1);
    EXPECT_TRUE(b.inputs.slice(1, 0, longest).equal(a.inputs));
    EXPECT_EQ(b.inputs.slice(1, longest).count_nonzero().item<int64_t>(), 0);
    if (a.targets.dim() == 2) {
      EXPECT_EQ(b.targets.size(1), b.inputs.size(1));
      EXPECT_TRUE(b.targets.slice(1, 0, longest).equal(a.targets));
      EXPECT_TRUE(b.targets.slice(1, longest).eq(-1).all().item<bool>());
    } else {
      EXPECT_TRUE(b.targets.equal(a.targets));
    }
    lengths.insert(b.inputs.size(1));
  }
  EXPECT_TRUE(rounded.done());
  return lengths;
}

TEST(RowsLoader, LengthClassesGiveFewShapesAndTheSameSamples) {
  for (const bool orders : {true, false}) {
    RowStore store(60, 40, orders);
    store.not_a_number = {8, 9, 10}, store.empty = {20};
    for (const bool staged : {false, true}) {
      for (const int64_t window : {0, 2}) {
        LoaderOptions options = options_of(3, 12, 5);  // one epoch
        options.skip_bad = true;
        Loader plain(store, all_ids(60), rows_spec(window), options, {1, 2});
        options.length_classes = 3;
        Loader rounded(store, all_ids(60), rows_spec(window), options, {1, 2},
                       staged ? stage_of(1) : nullptr);
        const std::set<int64_t> lengths = lengths_beside(plain, rounded);
        EXPECT_LE(lengths.size(), 3u);
        EXPECT_GE(lengths.size(), 2u);
      }
    }
  }
}

// Batches of later epochs may be of other samples: what is longer than in the first epoch keeps
// its length.
TEST(RowsLoader, WithOneClassAllBatchesHaveOneLength) {
  const RowStore store(50, 30, true);
  LoaderOptions options = options_of(5, 5, 30);  // three epochs
  Loader plain(store, all_ids(50), rows_spec(), options, {0, 1});
  options.length_classes = 1;
  Loader rounded(store, all_ids(50), rows_spec(), options, {0, 1});
  int64_t longest = 0;
  for (int64_t id = 0; id < 50; ++id) longest = std::max(longest, store.input_rows(id));
  EXPECT_EQ(lengths_beside(plain, rounded), std::set<int64_t>{longest});
}

TEST(RowsLoader, SeekEqualsSkipping) {
  const RowStore store(47, 12, true);
  std::map<std::pair<int64_t, int64_t>, Batch> all;
  Loader straight(store, all_ids(47), rows_spec(3), options_of(2, 6, 20), {1, 2});
  while (!straight.done()) {
    const Batch batch = straight.next();
    all[{batch.step, batch.micro}] = batch;
  }
  Loader jumping(store, all_ids(47), rows_spec(3), options_of(2, 6, 20, 3), {1, 2});
  for (const int64_t from : {13, 2, 8, 19, 0}) {
    jumping.seek(from);
    for (int i = 0; i < 5 && !jumping.done(); ++i) {
      const Batch batch = jumping.next();
      EXPECT_TRUE(i > 0 || batch.step == from);
      const Batch& same = all.at({batch.step, batch.micro});
      EXPECT_EQ(batch.ids, same.ids);
      EXPECT_TRUE(batch.inputs.equal(same.inputs));
      EXPECT_TRUE(batch.targets.equal(same.targets));
      EXPECT_TRUE(batch.lengths.equal(same.lengths));
    }
  }
}

TEST(RowsLoader, EvaluationKeepsTheOrder) {
  const RowStore store(7, 5, true);
  LoaderOptions options = options_of(3, 3, 3);
  options.shuffle = options.augment = false;
  Loader loader(store, {6, 4, 2, 0, 1, 3, 5}, rows_spec(2), options, {0, 1});
  std::vector<int64_t> order;
  int64_t rows = 0;
  while (!loader.done()) {
    const Batch batch = loader.next();
    order.insert(order.end(), batch.ids.begin(), batch.ids.end());
    rows += batch.rows;
  }
  EXPECT_EQ(order, (std::vector<int64_t>{6, 4, 2, 0, 1, 3, 5}));
  EXPECT_EQ(loader.bytes_read(), rows * (4 * kColumns + 8));
}

TEST(RowsLoader, AnEmptyShareGivesAnEmptyBatch) {
  const RowStore store(2, 5, true);
  Loader loader(store, all_ids(2), rows_spec(2), options_of(4, 20, 1), {4, 5});
  const Batch batch = loader.next();
  EXPECT_EQ(batch.samples(), 0);
  EXPECT_EQ(batch.inputs.sizes(), at::IntArrayRef({0, 0, kColumns}));
  EXPECT_EQ(batch.targets.sizes(), at::IntArrayRef({0, 0}));
  EXPECT_EQ(batch.lengths.sizes(), at::IntArrayRef({0}));
  EXPECT_EQ(batch.rows, 0);
}

// Samples of a fixed size need no padding: the batch has the stored shape.
TEST(RowsLoader, FixedSizesKeepTheirShape) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{6}, std::vector<int64_t>{4, 2}}) {
    RowStore store(5, 1, false);
    store.schema_to_change().input = {Element::kFloat32, shape};
    Loader loader(store, all_ids(5), rows_spec(2), options_of(5, 5, 1), {0, 1});
    const Batch batch = loader.next();
    std::vector<int64_t> sizes{5};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    EXPECT_EQ(batch.inputs.sizes(), at::IntArrayRef(sizes));
    const int64_t length = shape.size() == 1 ? 1 : 4;
    EXPECT_TRUE(batch.lengths.equal(at::full({5}, length, at::kLong)));
    EXPECT_EQ(batch.rows, 5 * length);
    for (int64_t b = 0; b < 5; ++b) {
      const at::Tensor values = batch.inputs[b].flatten();
      for (int64_t i = 0; i < values.numel(); ++i) {
        EXPECT_EQ(values[i].item<float>(), RowStore::value(batch.ids[static_cast<size_t>(b)], i));
      }
    }
  }
}

// Loading through a device stage (growing blocks, copies, delayed reuse) gives the same batches as
// loading on the CPU.
TEST(RowsLoader, ADeviceStageGivesTheSameBatches) {
  for (const bool orders : {true, false}) {
    const RowStore store(61, 40, orders);
    for (int prefetch : {1, 3}) {
      for (int lag : {0, 1, 2, 1000}) {
        SCOPED_TRACE(::testing::Message() << "prefetch " << prefetch << ", lag " << lag);
        const LoaderOptions options = options_of(3, 7, 30, 2, prefetch);
        Loader plain(store, all_ids(61), rows_spec(2), options, {0, 2});
        auto stage = stage_of(lag);
        const HostStage& seen = *stage;
        Loader staged(store, all_ids(61), rows_spec(2), options, {0, 2}, std::move(stage));
        for (int64_t from : {0, 5}) {
          plain.seek(from);
          staged.seek(from);
          while (!plain.done()) {
            const Batch a = plain.next(), b = staged.next();
            expect_whole(b, store);
            if (HasFatalFailure()) return;
            ASSERT_EQ(a.ids, b.ids);
            ASSERT_TRUE(a.inputs.equal(b.inputs));
            ASSERT_TRUE(a.targets.equal(b.targets));
            ASSERT_TRUE(a.lengths.equal(b.lengths));
          }
        }
        EXPECT_LE(seen.allocated, (prefetch + 2) * 12) << "blocks must be reused";
      }
    }
  }
}

TEST(RowsLoader, NamesTheBadSample) {
  const auto message = [](const std::function<void(RowStore&)>& spoil,
                          Verify verify = Verify::kNever) {
    RowStore store(20, 9, true);
    spoil(store);
    LoaderOptions options = options_of(5, 5, 4);
    options.verify = verify;
    Loader loader(store, all_ids(20), rows_spec(), options, {0, 1});
    return error_of_next(loader);
  };
  EXPECT_EQ(message([](RowStore&) {}), "no error");
  EXPECT_THAT(message([](RowStore& store) { store.unreadable = {7}; }), HasSubstr("rows.h5#7"));
  const std::string infinite = message([](RowStore& store) { store.infinite = {11}; });
  for (const char* part :
       {"rows.h5#11: row 0, column 0 is -inf", "walks/11.npy", "data.on_bad_sample: skip"}) {
    EXPECT_THAT(infinite, HasSubstr(part));
  }
  const int64_t last_row = RowStore(20, 9, true).input_rows(3) - 1;
  EXPECT_THAT(message([](RowStore& store) { store.not_a_number = {3}; }),
              HasSubstr(dtrain::str("rows.h5#3: row ", last_row, ", column 2 is nan")));
  EXPECT_THAT(message([](RowStore& store) { store.empty = {13}; }),
              HasSubstr("rows.h5#13: has no rows"));
  for (const Verify verify : {Verify::kAlways, Verify::kFirstEpoch}) {
    EXPECT_THAT(message([](RowStore& store) { store.rotten = {2}; }, verify),
                HasSubstr("rows.h5#2: the checksum"));
  }
  // With a budget, what is compared depends on time: the defect of the values is reported in
  // either case.
  const auto both = [](RowStore& store) { store.rotten = store.infinite = {2}; };
  EXPECT_THAT(message(both, Verify::kFirstEpoch), HasSubstr("rows.h5#2: row 0, column 0 is -inf"));
}

// Samples with more rows than the network accepts are reported or left out with a reason, and
// never read.
TEST(RowsLoader, ASampleThatIsTooLongIsBad) {
  constexpr int64_t kSamples = 30, kLongest = 12;
  for (const bool orders : {true, false}) {
    const RowStore store(kSamples, 40, orders);
    std::set<int64_t> longer;
    for (int64_t id = 0; id < kSamples; ++id) {
      if (store.input_rows(id) > kLongest) longer.insert(id);
    }
    ASSERT_GT(longer.size(), 3u);
    SampleSpec spec = rows_spec();
    spec.longest = kLongest;
    LoaderOptions options = options_of(1, 1, kSamples);  // includes batches of only one bad sample
    options.shuffle = false;
    Loader strict(store, all_ids(kSamples), spec, options, {0, 1});
    const std::string message = error_of_next(strict);
    EXPECT_THAT(message, HasSubstr(dtrain::str("rows.h5#", *longer.begin(), ": has ",
                                               store.input_rows(*longer.begin()),
                                               " rows; the network takes up to 12")));
    EXPECT_THAT(message, HasSubstr("data.on_bad_sample: skip"));
    options.skip_bad = true;
    for (const int64_t batch_size : {1, 7}) {
      options.batch_size = options.global_batch = batch_size;
      options.steps = data::steps_per_epoch(kSamples, batch_size);
      for (const bool staged : {false, true}) {
        Loader loader(store, all_ids(kSamples), spec, options, {0, 1},
                      staged ? stage_of(1) : nullptr);
        std::set<int64_t> kept, left_out;
        while (!loader.done()) {
          const Batch batch = loader.next();
          expect_whole(batch, store);
          if (HasFatalFailure()) return;
          EXPECT_LE(batch.inputs.size(1), kLongest);
          kept.insert(batch.ids.begin(), batch.ids.end());
          for (const Batch::LeftOut& bad : batch.left_out) {
            left_out.insert(bad.id);
            EXPECT_THAT(bad.reason, HasSubstr(dtrain::str("rows.h5#", bad.id, ": has ")));
            EXPECT_EQ(bad.reason.find("on_bad_sample"), std::string::npos) << bad.reason;
          }
        }
        EXPECT_EQ(left_out, longer);
        EXPECT_EQ(kept.size() + longer.size(), size_t{kSamples});
      }
    }
  }
}

TEST(RowsLoader, SkipsBadSamplesAndWarnsOnce) {
  for (const bool orders : {true, false}) {
    RowStore store(40, 30, orders);
    store.unreadable = {1, 2}, store.not_a_number = {8}, store.infinite = {33}, store.empty = {20};
    const std::set<int64_t> bad{1, 2, 8, 20, 33};
    for (const bool staged : {false, true}) {
      LoaderOptions options = options_of(3, 8, 10, 3);  // two epochs
      options.skip_bad = true;
      Loader loader(store, all_ids(40), rows_spec(2), options, {0, 1},
                    staged ? stage_of(1) : nullptr);
      std::map<int64_t, int> seen;
      ::testing::internal::CaptureStderr();
      while (!loader.done()) {
        const Batch batch = loader.next();
        expect_whole(batch, store);
        if (HasFatalFailure()) return;
        for (int64_t id : batch.ids) ++seen[id];
      }
      const std::string warnings = ::testing::internal::GetCapturedStderr();
      EXPECT_EQ(loader.bad_ids().size(), 5u);
      for (int64_t id = 0; id < 40; ++id) {
        EXPECT_EQ(seen[id], bad.count(id) ? 0 : 2) << "sample " << id;
        const std::string name = dtrain::str("rows.h5#", id, ":");
        const size_t first = warnings.find(name);
        EXPECT_EQ(first != std::string::npos, bad.count(id) == 1) << warnings;
        if (first == std::string::npos) continue;
        EXPECT_EQ(warnings.find(name, first + 1), std::string::npos) << "once: " << warnings;
        EXPECT_THAT(warnings, HasSubstr(dtrain::str("walks/", id, ".npy")));
      }
    }
  }
}

TEST(RowsLoader, ABatchOfOnlyBadSamplesIsEmpty) {
  RowStore store(3, 5, true);
  store.not_a_number = {1};
  LoaderOptions options = options_of(1, 1, 3);
  options.shuffle = false, options.skip_bad = true;
  Loader loader(store, all_ids(3), rows_spec(), options, {0, 1});
  EXPECT_EQ(loader.next().samples(), 1);
  const Batch empty = loader.next();
  EXPECT_EQ(empty.samples(), 0);
  EXPECT_EQ(empty.rows, 0);
  EXPECT_EQ(empty.inputs.sizes(), at::IntArrayRef({0, 0, kColumns}));
  EXPECT_EQ(empty.targets.sizes(), at::IntArrayRef({0, 0}));
  EXPECT_EQ(loader.next().ids, std::vector<int64_t>{2});
}

}  // namespace
}  // namespace dtrain::data

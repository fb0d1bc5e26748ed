// The cost of a sample, in counts that do not depend on the load of the machine: one read for its
// input, one for its target, and no memory allocation other than those of its batch.

#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <string>

#include "data/hdf5/data_set.h"
#include "data/hdf5/file_store.h"
#include "data/hdf5/row_set.h"
#include "data/loader/loader.h"
#include "data/loader/sample_check.h"
#include "data/order/splits.h"
#include "support/count_allocations.h"
#include "support/temp_dir.h"

namespace dtrain::data {
namespace {

struct Cost {
  double allocations, reads;
};

// The cost per sample after the first batches. Every step has one micro-step, so that only the
// batch size differs.
Cost cost(const Store& store, const SampleSpec& spec, int64_t batch_size, int64_t batches) {
  LoaderOptions options;
  options.batch_size = options.global_batch = batch_size;
  options.steps = batches;
  options.threads = 2;
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < store.schema().samples; ++i) ids.push_back(i);
  Loader loader(store, ids, spec, options, {0, 1});
  while (!loader.done()) loader.next();
  // Count from before the seek: here the readers are idle, and during the seek they begin to
  // read ahead.
  const int64_t allocations_before = testing::allocations_of_process(),
                reads_before = testing::file_calls_of_process();
  loader.seek(0);
  while (!loader.done()) loader.next();
  const auto samples = static_cast<double>(batch_size * batches);
  return {static_cast<double>(testing::allocations_of_process() - allocations_before) / samples,
          static_cast<double>(testing::file_calls_of_process() - reads_before) / samples};
}

void expect_cheap(const Store& store, const SampleSpec& spec) {
  const Cost small = cost(store, spec, 8, 64), large = cost(store, spec, 256, 32);
  std::cout << "allocations a sample: " << small.allocations << " in batches of 8, "
            << large.allocations << " in batches of 256; reads: " << large.reads << "\n";
  EXPECT_LT(large.allocations, 0.5);
  EXPECT_LT(large.allocations, small.allocations / 8) << "the remaining allocations are per batch";
  EXPECT_GE(large.reads, 2);
  EXPECT_LT(large.reads, 2.1);
}

TEST(Cost, AnImageNeedsTwoReadsAndNoAllocation) {
  const testing::TempDir folder;
  testing::write_data_set(folder / "d.h5", 256, testing::extras_of(256));
  SampleSpec spec;
  spec.image_size = 4;
  spec.target_flip_sign = {-1, 1, -1};
  spec.hflip = true, spec.crop_scale = 0.6f, spec.crop_ratio = 1.3f, spec.contrast = 0.2f;
  expect_cheap(*open_file(folder / "d.h5"), spec);
}

TEST(Cost, ASequenceNeedsTwoReadsAndNoAllocation) {
  const testing::TempDir folder;
  std::vector<int64_t> rows;
  for (int64_t id = 0; id < 256; ++id) rows.push_back(1 + id * 7 % 50);
  const auto writer = Writer::create(folder / "d.h5", testing::row_schema(true, 256), rows, rows);
  for (int64_t id = 0; id < 256; ++id) {
    const auto count = static_cast<size_t>(rows[static_cast<size_t>(id)]);
    writer->write(id, testing::bytes_of(std::vector<float>(count * 3, 1)),
                  testing::bytes_of(std::vector<int64_t>(count, 0)));
  }
  writer->finish(testing::extras_of(256));
  SampleSpec spec;
  spec.kind = SampleSpec::Kind::kRows;
  expect_cheap(*open_file(folder / "d.h5"), spec);
}

// What a start of training holds for each sample of a large file: ids of the splits, and their
// order in an epoch.
TEST(Cost, AMillionSamplesStartWithFewBytesAndOneReadEach) {
  constexpr int64_t kSamples = 1'000'000, kBatch = 256;
  const testing::TempDir folder;
  const Schema schema{"module", {Element::kFloat32, {8}}, {Element::kFloat32, {}}, kSamples, 0};
  const std::vector<std::byte> input(32), target(4);
  const std::vector<Writer::Sample> run(1000, {input, target});
  const auto writer = Writer::create(folder / "d.h5", schema);
  for (int64_t first = 0; first < kSamples; first += 1000) writer->write(first, run);
  Writer::Index index;
  index.source = {kSamples, [](int64_t id) { return std::to_string(id); }};
  index.group = {kSamples, [](int64_t id) { return id; }};
  index.splits["train"] = {kSamples / 10 * 9, [](int64_t i) { return i; }};
  index.splits["val"] = {kSamples / 10, [](int64_t i) { return kSamples / 10 * 9 + i; }};
  writer->finish(index);

  SampleSpec spec;
  spec.kind = SampleSpec::Kind::kRows;
  LoaderOptions options;
  options.batch_size = options.global_batch = kBatch;
  options.steps = 20;
  options.threads = 2;
  const int64_t allocations = testing::allocations_of_process(),
                calls = testing::file_calls_of_process();
  const int64_t bytes = testing::peak_bytes_of([&] {
    const std::unique_ptr<Store> store = open_file(folder / "d.h5");
    const Splits split = splits(*store, 0.1, 1);
    check_samples(*store, spec);
    Loader loader(*store, split.train, spec, options, {0, 1});
    while (!loader.done()) loader.next();
  });
  const auto per_sample = [](int64_t count) { return static_cast<double>(count) / kSamples; };
  const int64_t new_allocations = testing::allocations_of_process() - allocations;
  std::cout << "bytes a sample: " << per_sample(bytes) << ", allocations: " << new_allocations
            << ", reads a sample: " << per_sample(testing::file_calls_of_process() - calls) << "\n";
  EXPECT_LT(per_sample(bytes), 40);
  EXPECT_LT(new_allocations, 20'000);
  // Targets are checked; inputs only as used
  EXPECT_LT(per_sample(testing::file_calls_of_process() - calls), 1.1);
}

}  // namespace
}  // namespace dtrain::data

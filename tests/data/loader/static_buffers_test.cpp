// Batches whose tensors are the same in each step of a shape.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "data/loader/batch_tensors.h"
#include "data/loader/loader.h"
#include "data/loader/loading.h"
#include "data/loader/replay.h"
#include "support/host_stage.h"
#include "support/memory_store.h"
#include "support/row_store.h"

namespace dtrain::data {
namespace {

using dtrain::testing::all_ids;
using dtrain::testing::HostStage;
using dtrain::testing::MemoryStore;
using dtrain::testing::options_of;
using dtrain::testing::RowStore;

SampleSpec spec_of_rows() {
  SampleSpec spec;
  spec.kind = SampleSpec::Kind::kRows;
  return spec;
}

SampleSpec image_spec() {
  SampleSpec spec;
  spec.image_size = 8;
  spec.target_flip_sign = {-1, 1, -1};
  spec.hflip = true, spec.crop_scale = 0.6f, spec.contrast = 0.3f;
  return spec;
}

std::vector<const void*> places(const Batch& batch) {
  std::vector<const void*> result;
  for (const at::Tensor& tensor : {batch.inputs, batch.targets, batch.lengths, batch.sample_ids}) {
    result.push_back(tensor.defined() ? tensor.const_data_ptr() : nullptr);
  }
  return result;
}

void expect_equal(const Batch& a, const Batch& b) {
  ASSERT_EQ(a.ids, b.ids);
  EXPECT_TRUE(a.inputs.equal(b.inputs));
  EXPECT_EQ(a.inputs.strides(), b.inputs.strides());
  EXPECT_TRUE(a.targets.equal(b.targets));
  EXPECT_TRUE(b.sample_ids.equal(at::tensor(b.ids, at::kLong)));
  ASSERT_EQ(a.lengths.defined(), b.lengths.defined());
  if (a.lengths.defined()) {
    EXPECT_TRUE(a.lengths.equal(b.lengths));
  }
}

// The same values as those of a loader without static buffers. Each shape has one place, which no
// other shape has.
void expect_static(const Store& store, const SampleSpec& spec, bool staged) {
  LoaderOptions options = options_of(4, 4, 12);
  const auto ids = all_ids(store.schema().samples);
  Loader plain(store, ids, spec, options, {0, 1});
  options.static_buffers = true;
  // Does not change a length
  options.length_classes = spec.kind == SampleSpec::Kind::kRows ? 64 : 0;
  const std::vector<int64_t>& shape = store.schema().input.shape;
  const StageOptions stage{
      spec, spec.kind == SampleSpec::Kind::kImage ? ImageShape{shape[0], shape[1]} : ImageShape{},
      4, 0};
  Loader loader(store, ids, spec, options, {0, 1},
                staged ? std::make_unique<HostStage>(stage, 1) : nullptr);
  std::map<std::vector<int64_t>, std::vector<const void*>> by_shape;
  std::set<const void*> inputs;
  while (!plain.done()) {
    const Batch a = plain.next(), b = loader.next();
    expect_equal(a, b);
    const auto [found, first] = by_shape.emplace(b.inputs.sizes().vec(), places(b));
    EXPECT_EQ(found->second, places(b)) << b.inputs.sizes();
    EXPECT_EQ(inputs.insert(b.inputs.const_data_ptr()).second, first);
  }
  EXPECT_LT(by_shape.size(), 12u);
}

TEST(StaticBuffers, HaveTheValuesOfEachBatchAtTheSamePlaces) {
  for (const bool staged : {false, true}) {
    expect_static(MemoryStore(14, 12, 12), image_spec(), staged);  // a tail of two samples
    for (const bool orders : {true, false})
      expect_static(RowStore(14, 3, orders), spec_of_rows(), staged);
  }
}

TEST(StaticBuffers, AreForFewShapes) {
  StaticBuffers buffers(8, at::kCPU, /*most=*/2);
  const auto of_length = [](int64_t length) {
    PackedBatch packed;
    packed.kind = SampleSpec::Kind::kRows;
    packed.inputs = {2, length, 3}, packed.targets = {2}, packed.target_element = Element::kInt64;
    return packed;
  };
  const BatchTensors three = buffers.of(of_length(3)), four = buffers.of(of_length(4));
  EXPECT_EQ(buffers.of(of_length(3)).inputs.const_data_ptr(), three.inputs.const_data_ptr());
  EXPECT_EQ(buffers.of(of_length(4)).inputs.const_data_ptr(), four.inputs.const_data_ptr());
  const BatchTensors five = buffers.of(of_length(5)), again = buffers.of(of_length(5));
  EXPECT_NE(five.inputs.const_data_ptr(), again.inputs.const_data_ptr());
  EXPECT_EQ(again.inputs.sizes(), at::IntArrayRef({2, 5, 3}));
  EXPECT_EQ(buffers.shapes(), 2u);
}

// The buffer of the planned shape keeps its place for the next batch without a bad sample.
TEST(StaticBuffers, ABatchWithABadSampleHasItsOwnTensors) {
  RowStore store(12, 1, false);
  store.not_a_number = {5};
  LoaderOptions options = options_of(4, 4, 3);
  options.shuffle = false, options.skip_bad = options.static_buffers = true;
  Loader loader(store, all_ids(12), spec_of_rows(), options, {0, 1});
  const Batch first = loader.next(), bad = loader.next(), last = loader.next();
  EXPECT_EQ(bad.ids, (std::vector<int64_t>{4, 6, 7}));
  EXPECT_TRUE(bad.sample_ids.equal(at::tensor(bad.ids, at::kLong)));
  EXPECT_EQ(bad.inputs[0][0][0].item<float>(), RowStore::value(4, 0));
  EXPECT_EQ(places(first), places(last));
  EXPECT_NE(places(first), places(bad));
}

TEST(StaticBuffers, AReplayKeepsCopies) {
  const MemoryStore store(12, 12, 12);
  LoaderOptions options = options_of(4, 4, 3);
  Loader plain(store, all_ids(12), image_spec(), options, {0, 1});
  options.static_buffers = true;
  Loader loader(store, all_ids(12), image_spec(), options, {0, 1});
  Replay replay(loader, 3, 1 << 20, /*copies_tensors=*/true);
  ASSERT_EQ(replay.kept(), 3u);
  std::set<std::vector<const void*>> all_places;
  for (int i = 0; i < 3; ++i) {
    const Batch batch = replay.next();
    expect_equal(plain.next(), batch);
    all_places.insert(places(batch));
  }
  EXPECT_EQ(all_places.size(), 1u) << "a graph is for one place";
}

}  // namespace
}  // namespace dtrain::data

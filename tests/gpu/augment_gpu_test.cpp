// The loader gives the same bits on the GPU as on the CPU: both run the same code without fused
// multiply-add, and the mean gray value is an integer sum.

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <vector>

#include "data/loader/loader.h"
#include "support/memory_store.h"
#include "support/row_store.h"

namespace dtrain::data {
namespace {

using dtrain::testing::MemoryStore;

class AugmentGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
};

struct Case {
  int64_t height, width, side;
};

void compare(const Case& c, bool augment, const SampleSpec& spec) {
  SCOPED_TRACE(::testing::Message() << c.height << " x " << c.width << " to " << c.side
                                    << (augment ? ", augmented" : ""));
  const MemoryStore store(50, c.height, c.width);
  std::vector<int64_t> ids(50);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  LoaderOptions options;
  options.batch_size = 6, options.global_batch = 12, options.steps = 10, options.threads = 2;
  options.augment = augment;
  Loader cpu(store, ids, spec, options, {0, 1});
  options.device = at::kCUDA;
  Loader gpu(store, ids, spec, options, {0, 1});
  for (int64_t from : {0, 7}) {
    cpu.seek(from);
    gpu.seek(from);
    while (!cpu.done()) {
      const Batch a = cpu.next(), b = gpu.next();
      ASSERT_EQ(a.ids, b.ids);
      ASSERT_TRUE(b.inputs.is_cuda() && b.inputs.is_contiguous(at::MemoryFormat::ChannelsLast));
      const at::Tensor inputs = b.inputs.cpu();
      ASSERT_TRUE(a.inputs.equal(inputs)) << "step " << a.step << ", largest difference "
                                          << (a.inputs - inputs).abs().max().item<float>();
      ASSERT_TRUE(a.targets.equal(b.targets.cpu()));
    }
    EXPECT_TRUE(gpu.done());
  }
}

SampleSpec spec_of(int64_t side) {
  SampleSpec spec;
  spec.image_size = side;
  spec.target_flip_sign = {-1, 1, -1};
  return spec;
}

TEST_F(AugmentGpu, EqualsTheCpuToTheBit) {
  for (const Case& c : {Case{64, 64, 64}, Case{20, 31, 24}, Case{300, 280, 224}, Case{5, 7, 3}}) {
    SampleSpec spec = spec_of(c.side);
    compare(c, true, spec);
    spec.hflip = true, spec.crop_scale = 0.7f;
    compare(c, true, spec);
    spec.brightness = spec.saturation = 0.4f, spec.hue = 0.5f;
    compare(c, true, spec);
    spec.contrast = 0.5f;
    compare(c, true, spec);
    compare(c, false, spec);
  }
}

// The loader uses its own stream and the host never waits for the device: blocks and buffers must
// not be overwritten before the device has read them.
TEST_F(AugmentGpu, IsCorrectWhenTheHostDoesNotWait) {
  const MemoryStore store(64, 32, 32);
  std::vector<int64_t> ids(64);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  SampleSpec spec = spec_of(32);
  spec.hflip = true, spec.crop_scale = 0.7f, spec.contrast = 0.5f;
  LoaderOptions options;
  options.batch_size = options.global_batch = 8, options.steps = 200, options.threads = 3,
  options.prefetch = 2;
  Loader cpu(store, ids, spec, options, {0, 1});
  options.device = at::kCUDA;
  Loader gpu(store, ids, spec, options, {0, 1});
  std::vector<at::Tensor> sums, expected;
  const at::Tensor ballast = at::rand({2048, 2048}, at::kCUDA);
  while (!gpu.done()) {
    at::mm(ballast, ballast);  // the device falls behind
    sums.push_back(gpu.next().inputs.to(at::kDouble).sum({1, 2, 3}));
  }
  while (!cpu.done()) expected.push_back(cpu.next().inputs.to(at::kDouble).sum({1, 2, 3}));
  ASSERT_EQ(sums.size(), expected.size());
  for (size_t i = 0; i < sums.size(); ++i)
    ASSERT_TRUE(at::allclose(sums[i].cpu(), expected[i], 1e-9, 1e-9)) << "batch " << i;
}

// Rows use the same path, with blocks that grow, and targets of any type arrive as they are stored.
TEST_F(AugmentGpu, RowsEqualTheCpusWhileTheHostRunsAhead) {
  for (const bool orders : {true, false}) {
    dtrain::testing::RowStore store(200, 300, orders);
    store.not_a_number = {77};
    std::vector<int64_t> ids(200);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
    SampleSpec spec;
    spec.kind = SampleSpec::Kind::kRows;
    spec.length_window = 4;
    LoaderOptions options;
    options.batch_size = 8, options.global_batch = 16, options.steps = 60, options.threads = 3,
    options.prefetch = 2;
    options.skip_bad = true;
    Loader cpu(store, ids, spec, options, {0, 1});
    options.device = at::kCUDA;
    Loader gpu(store, ids, spec, options, {0, 1});
    const at::Tensor ballast = at::rand({2048, 2048}, at::kCUDA);
    std::vector<Batch> batches;
    while (!gpu.done()) {
      at::mm(ballast, ballast);  // the device falls behind
      batches.push_back(gpu.next());
    }
    for (const Batch& b : batches) {
      const Batch a = cpu.next();
      ASSERT_EQ(a.ids, b.ids);
      ASSERT_TRUE(b.inputs.is_cuda() && b.targets.is_cuda() && b.lengths.is_cuda());
      ASSERT_TRUE(a.inputs.equal(b.inputs.cpu()));
      ASSERT_TRUE(a.targets.equal(b.targets.cpu()));
      ASSERT_TRUE(a.lengths.equal(b.lengths.cpu()));
    }
    EXPECT_EQ(gpu.bad_ids().size(), 1u);
  }
}

}  // namespace
}  // namespace dtrain::data

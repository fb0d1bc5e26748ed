// Linear bottlenecks as one operation, compared with their layers one by one.

#include "layers/linear_bottleneck.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "layers/autocast.h"
#include "os/vector_set.h"

namespace dtrain::layers {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Sizes {
  int64_t samples, in, hidden, out, height, width, stride;
  bool expands = true;
};

// Widths that fill the tiles of matrix products in part and several times, images of several bands
// and chunks, odd ones, and such with a single row or column.
const std::vector<Sizes> kSizes = {
    {2, 16, 96, 24, 9, 7, 2},       {3, 24, 144, 24, 6, 6, 1},  {2, 32, 32, 16, 8, 5, 1, false},
    {1, 5, 16, 3, 1, 4, 1},         {4, 40, 64, 70, 3, 3, 2},   {1, 3, 16, 2, 5, 1, 2},
    {2, 48, 48, 8, 3, 4, 2, false}, {1, 16, 96, 24, 45, 41, 2}, {1, 24, 96, 16, 39, 40, 1}};

struct Block {
  explicit Block(const Sizes& s, at::ScalarType type = at::kFloat)
      : sizes(s), outer(s.hidden), inner(s.hidden) {
    const auto random = [&](at::IntArrayRef shape, double factor, double shift) {
      return (at::randn(shape, at::kDouble) * factor + shift).to(type).set_requires_grad(true);
    };
    x = random({s.samples, s.in, s.height, s.width}, 1, 0.3)
            .detach()
            .contiguous(at::MemoryFormat::ChannelsLast);
    x.set_requires_grad(true);
    expansion = random({s.hidden, s.in, 1, 1}, 0.5, 0);
    depthwise = random({s.hidden, 1, 3, 3}, 0.5, 0.1);
    projection = random({s.out, s.hidden, 1, 1}, 0.3, 0);
    for (BatchNorm* norm : {&outer, &inner}) {
      (*norm)->to(type);
      const at::NoGradGuard no_grad;
      (*norm)->weight.copy_(at::randn({s.hidden}) + 1.5);
      (*norm)->bias.copy_(at::randn({s.hidden}) + 1);
    }
  }

  LinearBottleneck layers() {
    LinearBottleneck block = {.depthwise = depthwise,
                              .depthwise_norm = inner.get(),
                              .projection = projection,
                              .stride = sizes.stride};
    if (sizes.expands) {
      block.expansion = expansion;
      block.expansion_norm = outer.get();
    }
    return block;
  }

  // What follows each batch norm is given to `see`.
  template <typename See>
  at::Tensor one_by_one(See see) {
    at::Tensor y = x;
    if (sizes.expands) y = see(outer->forward(at::conv2d(y, expansion))).clamp(0, 6);
    y = at::conv2d(y, depthwise, {}, sizes.stride, 1, 1, sizes.hidden);
    return at::conv2d(see(inner->forward(y)).clamp(0, 6), projection);
  }
  at::Tensor one_by_one() {
    return one_by_one([](const at::Tensor& y) { return y; });
  }

  Tensors parameters() {
    Tensors all = {x, depthwise, projection, inner->weight, inner->bias};
    if (sizes.expands) all.insert(all.end(), {expansion, outer->weight, outer->bias});
    return all;
  }

  // {y, gradients of parameters(), running statistics}, for a gradient of y that depends on its
  // shape only.
  Tensors all_of(const at::Tensor& y) {
    at::manual_seed(5);
    const at::Tensor dy = at::randn(y.sizes(), at::kDouble).to(y.scalar_type());
    Tensors all = {y.detach()};
    for (const at::Tensor& gradient : torch::autograd::grad({y}, parameters(), {dy}))
      all.push_back(gradient);
    all.insert(all.end(), {inner->running_mean, inner->running_var});
    if (sizes.expands) all.insert(all.end(), {outer->running_mean, outer->running_var});
    return all;
  }

  Sizes sizes;
  at::Tensor x, expansion, depthwise, projection;
  BatchNorm outer, inner;
};

// Drawn with the first seed with which no value is so close to a bend of ReLU6 that rounding
// decides its side.
uint64_t good_seed(const Sizes& sizes) {
  for (uint64_t seed = 1;; ++seed) {
    at::manual_seed(seed);
    double least = 1;
    Block(sizes, at::kDouble).one_by_one([&](const at::Tensor& y) {
      least = std::min({least, y.abs().min().item<double>(), (y - 6).abs().min().item<double>()});
      return y;
    });
    if (least > 4e-6) return seed;
  }
}

Block drawn(const Sizes& sizes, uint64_t seed, at::ScalarType type = at::kFloat) {
  at::manual_seed(seed);
  return Block(sizes, type);
}

void expect_close(const Tensors& found, const Tensors& expected, double bound,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].sizes(), expected[i].sizes());
    const double error = (found[i] - expected[i]).abs().max().item<double>();
    EXPECT_LE(error, bound * std::max(1.0, expected[i].abs().max().item<double>()))
        << what << " tensor " << i;
  }
}

std::string text_of(const Sizes& s) {
  return std::to_string(s.hidden) + " channels, stride " + std::to_string(s.stride);
}

TEST(LinearBottleneckTest, EqualsItsLayersInFloat64) {
  if (widest_vectors() == VectorSet::kAny) GTEST_SKIP() << "needs AVX2";
  for (const Sizes& sizes : kSizes) {
    const uint64_t seed = good_seed(sizes);
    Block wide = drawn(sizes, seed, at::kDouble);
    const Tensors expected = wide.all_of(wide.one_by_one());
    Block block = drawn(sizes, seed);
    ASSERT_TRUE(is_fused(block.layers(), block.x));
    const at::Tensor y = run(block.layers(), block.x);
    EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
    expect_close(block.all_of(y), expected, 1e-5, text_of(sizes));
    EXPECT_EQ(block.inner->num_batches_tracked.item<int64_t>(), 1);
  }
}

TEST(LinearBottleneckTest, HasTheSameBitsOnAnyNumberOfThreadsButForPointwiseWeights) {
  if (widest_vectors() == VectorSet::kAny) GTEST_SKIP() << "needs AVX2";
  const Sizes sizes = {3, 16, 96, 24, 40, 41, 2};
  const int before = at::get_num_threads();
  Block block = drawn(sizes, 1), again = drawn(sizes, 1);
  at::set_num_threads(4);
  const Tensors all = block.all_of(run(block.layers(), block.x));
  at::set_num_threads(1);
  const Tensors one = again.all_of(run(again.layers(), again.x));
  at::set_num_threads(before);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 3 || i == 6) {  // projection, expansion
      expect_close({all[i]}, {one[i]}, 1e-5, "weights");
    } else {
      EXPECT_TRUE(at::equal(all[i], one[i])) << i;
    }
  }
}

TEST(LinearBottleneckTest, SharesStatisticsInTheOrderOfItsLayers) {
  if (widest_vectors() == VectorSet::kAny) GTEST_SKIP() << "needs AVX2";
  const Sizes sizes = {2, 8, 32, 8, 5, 5, 1};
  const uint64_t seed = good_seed(sizes);
  std::vector<int64_t> found, expected;
  // As if another rank had the same samples with one more of each value; in backward its sums are
  // other ones, too.
  const auto reduce = [](std::vector<int64_t>& order) {
    return [&order](at::Tensor& sums) {
      order.push_back(sums.numel());
      if (sums.numel() % 2 == 0) {
        sums.mul_(2).add_(0.5);
        return;
      }
      const int64_t channels = sums.numel() / 2;
      const at::Tensor count = sums[0].clone(), values = sums.narrow(0, 1, channels),
                       squares = sums.narrow(0, 1 + channels, channels);
      squares.mul_(2).add_(2 * values).add_(count);
      values.mul_(2).add_(count);
      sums[0] *= 2;
    };
  };
  Block block = drawn(sizes, seed), layers = drawn(sizes, seed, at::kDouble);
  at::Tensor y, of_layers;
  {
    const SyncScope scope(reduce(found));
    y = run(block.layers(), block.x);
  }
  {
    const SyncScope scope(reduce(expected));
    of_layers = layers.one_by_one();
  }
  expect_close(block.all_of(y), layers.all_of(of_layers), 1e-5, "shared");
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), 4U);
}

TEST(LinearBottleneckTest, UsesRecordedStatistics) {
  if (widest_vectors() == VectorSet::kAny) GTEST_SKIP() << "needs AVX2";
  Block block = drawn({2, 8, 32, 8, 5, 5, 1}, 1);
  BatchNormRecord record;
  const BatchNormRecordScope scope(&record);
  const at::Tensor first = run(block.layers(), block.x);
  EXPECT_EQ(record.shared.size(), 2U);
  record.replay = true;
  const at::Tensor mean = block.inner->running_mean.clone();
  EXPECT_TRUE(at::equal(run(block.layers(), block.x), first));
  EXPECT_EQ(record.next, 2U);
  EXPECT_TRUE(at::equal(block.inner->running_mean, mean));
}

TEST(LinearBottleneckTest, HasTheSameGradientsOfWeightsWithoutThatOfTheInput) {
  if (widest_vectors() == VectorSet::kAny) GTEST_SKIP() << "needs AVX2";
  for (const bool expands : {true, false}) {
    const Sizes sizes = {2, 32, 32, 8, 5, 5, 2, expands};
    Block block = drawn(sizes, 1), images = drawn(sizes, 1);
    run(block.layers(), block.x).square().sum().backward();
    const at::Tensor x = images.x.detach();
    run(images.layers(), x).square().sum().backward();
    const Tensors expected = block.parameters(), found = images.parameters();
    for (size_t i = 1; i < found.size(); ++i)
      EXPECT_TRUE(at::equal(found[i].grad(), expected[i].grad())) << i;
    EXPECT_TRUE(block.x.grad().defined());
  }
}

// With layers one by one, the first of two batch norms would have no collective in backward.
TEST(LinearBottleneckTest, LeavesBlocksThatAreTrainedInPartToTheLayers) {
  Block block = drawn({2, 8, 32, 8, 5, 5, 1}, 1);
  const at::Tensor images = block.x.detach();
  block.expansion.set_requires_grad(false);
  block.outer->weight.set_requires_grad(false);
  block.outer->bias.set_requires_grad(false);
  EXPECT_FALSE(is_fused(block.layers(), images));
  EXPECT_EQ(is_fused(block.layers(), block.x), widest_vectors() != VectorSet::kAny);
  const at::NoGradGuard no_grad;
  EXPECT_EQ(is_fused(block.layers(), images), widest_vectors() != VectorSet::kAny);
}

TEST(LinearBottleneckTest, LeavesTheRestToTheLayers) {
  if (widest_vectors() == VectorSet::kAny) GTEST_SKIP() << "needs AVX2";
  const Sizes sizes = {2, 8, 32, 8, 5, 5, 1};
  Block block = drawn(sizes, 1), wide = drawn(sizes, 1, at::kDouble),
        odd = drawn({2, 8, 40, 8, 5, 5, 1}, 1), single = drawn({1, 8, 32, 8, 2, 2, 2}, 1);
  EXPECT_FALSE(is_fused(block.layers(), block.x.contiguous()));  // planes
  EXPECT_FALSE(is_fused(block.layers(), block.x.narrow(0, 0, 0)));
  EXPECT_FALSE(is_fused(wide.layers(), wide.x));
  EXPECT_FALSE(is_fused(odd.layers(), odd.x));        // not a multiple of 16
  EXPECT_FALSE(is_fused(single.layers(), single.x));  // one value per channel
  {
    const AutocastGuard autocast({.device = at::kCPU, .enabled = true, .dtype = at::kBFloat16});
    EXPECT_FALSE(is_fused(block.layers(), block.x));
  }
  {
    const SyncScope scope([](at::Tensor&) {}, /*has_samples=*/false);
    EXPECT_FALSE(is_fused(block.layers(), block.x));
  }
  {
    const LayersOneByOne scope;
    EXPECT_FALSE(is_fused(block.layers(), block.x));
  }
  EXPECT_EQ(is_fused(block.layers(), block.x), widest_vectors() != VectorSet::kAny);
  block.outer->freeze();
  EXPECT_FALSE(is_fused(block.layers(), block.x));
}

}  // namespace
}  // namespace dtrain::layers

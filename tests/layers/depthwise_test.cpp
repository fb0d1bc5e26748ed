// Depthwise convolutions by our own loops, compared with LibTorch's in float64.

#include "layers/depthwise.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "layers/autocast.h"

namespace dtrain::layers {
namespace {

struct Case {
  at::Tensor x, weight;
};

Case make_case(at::IntArrayRef sizes, at::MemoryFormat format = at::MemoryFormat::ChannelsLast) {
  at::manual_seed(4);
  return {at::randn(sizes).contiguous(format).set_requires_grad(true),
          at::randn({sizes[1], 1, 3, 3}).set_requires_grad(true)};
}

// {y, gradient of x, gradient of the weight} for a gradient of y that depends on its shape only.
std::vector<at::Tensor> all_of(const Case& c, const at::Tensor& y) {
  at::manual_seed(5);
  const at::Tensor dy = at::randn(y.sizes()).to(y.scalar_type());
  const auto gradients = torch::autograd::grad({y}, {c.x, c.weight}, {dy});
  return {y.detach(), gradients[0], gradients[1]};
}

std::vector<at::Tensor> expected_of(const Case& c, int64_t stride) {
  const Case wide = {c.x.detach().to(at::kDouble).set_requires_grad(true),
                     c.weight.detach().to(at::kDouble).set_requires_grad(true)};
  return all_of(wide, at::conv2d(wide.x, wide.weight, {}, stride, 1, 1, c.x.size(1)));
}

const std::vector<std::vector<int64_t>> kSizes = {{1, 1, 1, 1},    {2, 5, 1, 1},   {3, 8, 2, 2},
                                                  {2, 16, 3, 5},   {2, 19, 7, 6},  {1, 32, 9, 1},
                                                  {4, 40, 14, 14}, {3, 24, 33, 20}};

TEST(DepthwiseConv, EqualsLibTorchs) {
  for (const auto& sizes : kSizes) {
    for (const int64_t stride : {1, 2}) {
      const Case c = make_case(sizes);
      const auto found = all_of(c, depthwise_conv(c.x, c.weight, stride)),
                 expected = expected_of(c, stride);
      for (size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(found[i].sizes(), expected[i].sizes());
        const double error = (found[i] - expected[i]).abs().max().item<double>();
        EXPECT_LE(error, 2e-6 * std::max(1.0, expected[i].abs().max().item<double>()))
            << at::IntArrayRef(sizes) << " stride " << stride << " tensor " << i;
      }
      EXPECT_TRUE(found[0].is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_TRUE(found[1].is_contiguous(at::MemoryFormat::ChannelsLast));
      EXPECT_EQ(found[2].strides(), c.weight.strides());
    }
  }
}

TEST(DepthwiseConv, HasTheSameBitsOnAnyNumberOfThreads) {
  const Case c = make_case({5, 48, 40, 41});
  const int before = at::get_num_threads();
  for (const int64_t stride : {1, 2}) {
    at::set_num_threads(before);
    const auto all = all_of(c, depthwise_conv(c.x, c.weight, stride));
    at::set_num_threads(1);
    const auto one = all_of(c, depthwise_conv(c.x, c.weight, stride));
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(all[i], one[i])) << i;
  }
  at::set_num_threads(before);
}

TEST(DepthwiseConv, LeavesOtherFormatsAndPrecisionsToLibTorch) {
  const Case planes = make_case({2, 6, 8, 8}, at::MemoryFormat::Contiguous);
  EXPECT_TRUE(at::equal(depthwise_conv(planes.x, planes.weight, 1),
                        at::conv2d(planes.x, planes.weight, {}, 1, 1, 1, 6)));
  const Case c = make_case({2, 6, 8, 8});
  EXPECT_EQ(depthwise_conv(c.x.to(at::kDouble), c.weight.to(at::kDouble), 2).scalar_type(),
            at::kDouble);
  const AutocastGuard autocast({.device = at::kCPU, .enabled = true, .dtype = at::kBFloat16});
  EXPECT_EQ(depthwise_conv(c.x, c.weight, 1).scalar_type(), at::kBFloat16);
}

TEST(DepthwiseConv, ComputesOnlyTheGradientsThatAreNeeded) {
  const Case c = make_case({2, 16, 6, 6});
  const at::Tensor frozen = c.weight.detach();
  depthwise_conv(c.x, frozen, 1).sum().backward();
  EXPECT_TRUE(c.x.grad().defined());
  const at::Tensor image = c.x.detach();
  depthwise_conv(image, c.weight, 1).sum().backward();
  EXPECT_TRUE(c.weight.grad().defined());
}

}  // namespace
}  // namespace dtrain::layers

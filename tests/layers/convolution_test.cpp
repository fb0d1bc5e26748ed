// Convolutions by our own loops, compared with LibTorch's in float64.

#include "layers/convolution.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/conv.h>

#include "kernels/convolution.h"
#include "layers/autocast.h"

namespace dtrain::layers {
namespace {

struct Case {
  int64_t samples, in, out, height, width, kernel_height, kernel_width, stride, padding;
};

std::ostream& operator<<(std::ostream& to, const Case& c) {
  return to << c.samples << " x " << c.in << " to " << c.out << ", " << c.height << " x " << c.width
            << ", kernel " << c.kernel_height << " x " << c.kernel_width << ", stride " << c.stride
            << ", padding " << c.padding;
}

// Tails of tiles, of rows of a tile, of blocks; windows over the edge; kernels as large as what
// they see.
const std::vector<Case> kCases = {
    {2, 3, 5, 9, 11, 3, 3, 1, 1},     {1, 1, 1, 1, 1, 3, 3, 1, 1},    {2, 7, 33, 6, 5, 3, 3, 2, 1},
    {3, 16, 16, 14, 14, 3, 3, 1, 1},  {2, 3, 64, 30, 31, 7, 7, 2, 3}, {2, 4, 40, 8, 8, 1, 1, 1, 0},
    {1, 24, 17, 5, 300, 3, 3, 1, 1},  {5, 8, 96, 7, 7, 3, 3, 1, 1},   {2, 5, 6, 10, 9, 5, 3, 1, 2},
    {2, 6, 12, 12, 12, 2, 2, 2, 0},   {1, 2, 3, 4, 4, 4, 4, 1, 0},    {2, 3, 8, 5, 6, 3, 3, 3, 1},
    {1, 130, 70, 40, 33, 3, 3, 1, 1}, {3, 32, 64, 9, 12, 3, 3, 1, 1},
};

at::Tensor channels_last(at::IntArrayRef sizes) {
  return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast);
}

torch::nn::Conv2d make_conv(const Case& c) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(c.in, c.out, {c.kernel_height, c.kernel_width})
                             .stride(c.stride)
                             .padding(c.padding));
  conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  return conv;
}

// {y, gradients of x, weight and bias} for a gradient of y that depends on its shape only.
std::vector<at::Tensor> all_of(const at::Tensor& y, const at::Tensor& x,
                               const torch::nn::Conv2d& conv) {
  at::manual_seed(5);
  const at::Tensor dy = at::randn(y.sizes()).to(y.scalar_type());
  std::vector<at::Tensor> found = torch::autograd::grad({y}, {x, conv->weight, conv->bias}, {dy});
  found.insert(found.begin(), y.detach());
  return found;
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, const Case& c,
                 const char* what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << c << ": " << what;
  const double error = (found - expected).abs().max().item<double>();
  EXPECT_LE(error, 5e-6 * std::max(1.0, expected.abs().max().item<double>())) << c << ": " << what;
}

TEST(Convolution, EqualsLibTorchs) {
  for (const Case& c : kCases) {
    at::manual_seed(4);
    torch::nn::Conv2d conv = make_conv(c), wide = make_conv(c);
    const at::Tensor x =
        channels_last({c.samples, c.in, c.height, c.width}).set_requires_grad(true);
    const at::Tensor wide_x = x.detach().to(at::kDouble).set_requires_grad(true);
    wide->weight.set_data(conv->weight.detach().to(at::kDouble));
    wide->bias.set_data(conv->bias.detach().to(at::kDouble));
    const auto expected = all_of(wide->forward(wide_x), wide_x, wide);
    const auto found = all_of(convolve(*conv, x), x, conv);
    for (size_t i = 0; i < expected.size(); ++i) expect_near(found[i], expected[i], c, "convolve");
    // Our loops, also where convolve() does not take them.
    at::manual_seed(5);
    const at::Tensor dy = at::randn(found[0].sizes()).contiguous(at::MemoryFormat::ChannelsLast);
    const auto [of_weight, of_bias] = kernels::conv2d_weight_gradient(
        x.detach(), conv->weight, dy, c.stride, c.padding, /*with_bias=*/true);
    expect_near(of_weight, expected[2], c, "gradient of the weight");
    expect_near(of_bias, expected[3], c, "gradient of the bias");
    EXPECT_TRUE(of_weight.is_contiguous(at::MemoryFormat::ChannelsLast)) << c;
  }
}

TEST(Convolution, HasTheSameBitsAtTheSameNumberOfThreads) {
  const int before = at::get_num_threads();
  const at::Tensor x = channels_last({4, 24, 20, 20}), weight = channels_last({40, 24, 3, 3}),
                   dy = channels_last({4, 40, 20, 20});
  for (const int threads : {1, 2, 3, 64}) {
    at::set_num_threads(threads);
    const auto one = kernels::conv2d_weight_gradient(x, weight, dy, 1, 1, true);
    const auto other = kernels::conv2d_weight_gradient(x, weight, dy, 1, 1, true);
    EXPECT_TRUE(at::equal(one.first, other.first) && at::equal(one.second, other.second))
        << threads;
  }
  at::set_num_threads(before);
}

TEST(Convolution, SharesRowsBetweenThreadsWhereTheirSumsWouldTakeTooMuchMemory) {
  const int before = at::get_num_threads();
  const at::Tensor x = channels_last({1, 1024, 6, 6}), weight = channels_last({1030, 1024, 3, 3}),
                   dy = channels_last({1, 1030, 6, 6});
  at::set_num_threads(1);
  const auto expected = kernels::conv2d_weight_gradient(x, weight, dy, 1, 1, true);
  at::set_num_threads(5);
  const auto found = kernels::conv2d_weight_gradient(x, weight, dy, 1, 1, true);
  EXPECT_TRUE(at::equal(found.first, expected.first))
      << "one part has all rows, so that the sums have the same order";
  EXPECT_TRUE(at::equal(found.second, expected.second));
  at::set_num_threads(before);
}

// The first by LibTorch, with a gradient of the weights by our loops; the second by
// Winograd's algorithm.
const std::vector<Case> kOurCases = {{2, 8, 16, 10, 10, 3, 3, 1, 1},
                                     {3, 32, 32, 10, 10, 3, 3, 1, 1}};

TEST(Convolution, ComputesOnlyTheGradientsThatAreAskedFor) {
  for (const Case& c : kOurCases) {
    torch::nn::Conv2d conv = make_conv(c);
    const at::Tensor x =
        channels_last({c.samples, c.in, c.height, c.width}).set_requires_grad(true);
    conv->weight.set_requires_grad(false);
    conv->bias.set_requires_grad(false);
    convolve(*conv, x).sum().backward();
    EXPECT_TRUE(x.grad().defined());
    EXPECT_FALSE(conv->weight.grad().defined());
    conv->weight.set_requires_grad(true);
    convolve(*conv, x.detach()).sum().backward();
    EXPECT_TRUE(conv->weight.grad().defined());
    EXPECT_FALSE(conv->bias.grad().defined());
  }
}

TEST(Convolution, WorksWithoutABias) {
  for (const Case& c : kOurCases) {
    at::manual_seed(4);
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(c.in, c.out, 3).padding(1).bias(false));
    const at::Tensor x =
        channels_last({c.samples, c.in, c.height, c.width}).set_requires_grad(true);
    const at::Tensor found = torch::autograd::grad({convolve(*conv, x).sum()}, {conv->weight})[0];
    const at::Tensor expected = torch::autograd::grad({conv->forward(x).sum()}, {conv->weight})[0];
    EXPECT_LE((found - expected).abs().max().item<double>(),
              1e-5 * expected.abs().max().item<double>());
  }
}

TEST(Convolution, IsNotByWinogradWhereThatDoesNotPayOff) {
  for (const Case& c : {Case{32, 32, 32, 3, 3, 3, 3, 1, 1}, Case{1, 32, 32, 7, 7, 3, 3, 1, 1}}) {
    torch::nn::Conv2d conv = make_conv(c);
    const at::Tensor x = channels_last({c.samples, c.in, c.height, c.width});
    EXPECT_TRUE(at::equal(convolve(*conv, x), conv->forward(x))) << c;
  }
}

TEST(Convolution, LeavesTheRestToLibTorch) {
  const Case c{2, 4, 8, 6, 6, 3, 3, 1, 1};
  torch::nn::Conv2d conv = make_conv(c);
  const at::Tensor x = at::randn({2, 4, 6, 6});
  EXPECT_TRUE(at::equal(convolve(*conv, x), conv->forward(x))) << "not channels_last";
  torch::nn::Conv2d grouped(torch::nn::Conv2dOptions(4, 8, 3).groups(2).dilation(2));
  EXPECT_TRUE(at::equal(convolve(*grouped, x), grouped->forward(x)));
  torch::nn::Conv2d same(torch::nn::Conv2dOptions(4, 8, 3).padding(torch::kSame));
  EXPECT_TRUE(at::equal(convolve(*same, x), same->forward(x)));
  const at::Tensor none = channels_last({0, 4, 6, 6});
  EXPECT_EQ(convolve(*conv, none).size(0), 0);
  {
    const AutocastGuard guard({.device = at::kCPU, .enabled = true, .dtype = at::kBFloat16});
    EXPECT_EQ(convolve(*conv, channels_last({2, 4, 6, 6})).scalar_type(), at::kBFloat16);
  }
}

}  // namespace
}  // namespace dtrain::layers

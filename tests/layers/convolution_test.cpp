// Convolutions by Winograd's algorithm where that pays off, compared with LibTorch's in float64.

#include "layers/convolution.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/conv.h>

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

// Winograd's algorithm runs those with 16 and 32 channels where these are whole tiles of the
// vectors (tests/kernels/winograd_test.cpp has more); LibTorch runs the others.
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
  }
}

const Case kOurs{3, 32, 32, 10, 10, 3, 3, 1, 1};  // by Winograd's algorithm

TEST(Convolution, ComputesOnlyTheGradientsThatAreAskedFor) {
  torch::nn::Conv2d conv = make_conv(kOurs);
  const at::Tensor x =
      channels_last({kOurs.samples, kOurs.in, kOurs.height, kOurs.width}).set_requires_grad(true);
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

TEST(Convolution, WorksWithoutABias) {
  at::manual_seed(4);
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(kOurs.in, kOurs.out, 3).padding(1).bias(false));
  const at::Tensor x =
      channels_last({kOurs.samples, kOurs.in, kOurs.height, kOurs.width}).set_requires_grad(true);
  const at::Tensor found = torch::autograd::grad({convolve(*conv, x).sum()}, {conv->weight})[0];
  const at::Tensor expected = torch::autograd::grad({conv->forward(x).sum()}, {conv->weight})[0];
  EXPECT_LE((found - expected).abs().max().item<double>(),
            1e-5 * expected.abs().max().item<double>());
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

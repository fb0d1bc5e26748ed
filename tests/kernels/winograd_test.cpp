// Convolutions by Winograd's algorithm, compared with LibTorch's in float64.

#include "kernels/winograd.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

namespace dtrain::kernels {
namespace {

struct WinogradCase {
  int64_t samples, in, out, height, width;
};

std::ostream& operator<<(std::ostream& to, const WinogradCase& c) {
  return to << c.samples << " x " << c.in << " to " << c.out << ", " << c.height << " x "
            << c.width;
}

// Tiles that hang over the edge; fewer tiles than a block has, and a rest of them; a rest of a
// product's rows.
const std::vector<WinogradCase> kWinogradCases = {
    {1, 32, 32, 1, 1},   {1, 32, 64, 2, 3},  {2, 64, 32, 5, 4},   {3, 32, 32, 7, 7},
    {2, 96, 64, 14, 14}, {1, 64, 96, 9, 31}, {4, 32, 32, 40, 40}, {2, 256, 128, 12, 11}};

at::Tensor random_image(at::IntArrayRef sizes) {
  return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast);
}

double largest(const at::Tensor& t) { return t.abs().max().item<double>(); }

struct Results {
  at::Tensor y, of_x, of_weight, of_bias;
};

Results by_libtorch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& dy) {
  const at::Tensor leaf_x = x.detach().set_requires_grad(true),
                   leaf_weight = weight.detach().set_requires_grad(true);
  const at::Tensor leaf_bias = bias.detach().set_requires_grad(true);
  const at::Tensor y = at::conv2d(leaf_x, leaf_weight, leaf_bias, 1, 1);
  const auto found = torch::autograd::grad({y}, {leaf_x, leaf_weight, leaf_bias}, {dy});
  return {y.detach(), found[0], found[1], found[2]};
}

Results by_winograd(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& dy) {
  const auto [of_weight, of_bias] = winograd_weight_gradient(x, dy, /*with_bias=*/true);
  return {winograd_conv2d(x, weight, bias), winograd_input_gradient(dy, weight), of_weight,
          of_bias};
}

// The largest error as a share of the largest number, of each result.
std::vector<double> errors(const Results& found, const Results& exact) {
  const auto of = [](const at::Tensor& a, const at::Tensor& b) {
    EXPECT_EQ(a.sizes(), b.sizes());
    return largest(a.to(at::kDouble) - b) / largest(b);
  };
  return {of(found.y, exact.y), of(found.of_x, exact.of_x), of(found.of_weight, exact.of_weight),
          of(found.of_bias, exact.of_bias)};
}

TEST(Winograd, IsTheConvolution) {
  for (const WinogradCase& c : kWinogradCases) {
    at::manual_seed(4);
    ASSERT_TRUE(winograd_takes(c.in, c.out));
    const at::Tensor x = random_image({c.samples, c.in, c.height, c.width});
    const at::Tensor weight = random_image({c.out, c.in, 3, 3}), bias = at::randn({c.out});
    const at::Tensor dy = random_image({c.samples, c.out, c.height, c.width});
    const Results exact = by_libtorch(x.to(at::kDouble), weight.to(at::kDouble),
                                      bias.to(at::kDouble), dy.to(at::kDouble));
    const Results found = by_winograd(x, weight, bias, dy);
    for (const double error : errors(found, exact)) EXPECT_LE(error, 2e-6) << c;
    for (const at::Tensor& image : {found.y, found.of_x, found.of_weight}) {
      EXPECT_TRUE(image.is_contiguous(at::MemoryFormat::ChannelsLast)) << c;
    }
    EXPECT_LE(largest(winograd_conv2d(x, weight, {}).to(at::kDouble) -
                      at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), {}, 1, 1)),
              2e-6 * largest(exact.y))
        << c << " without a bias";
    EXPECT_FALSE(winograd_weight_gradient(x, dy, false).second.defined());
  }
}

// A sum in float32 of positive numbers, which do not cancel: the transforms' differences must not
// cost digits.
TEST(Winograd, IsAboutAsExactAsTheSum) {
  at::manual_seed(1);
  const at::Tensor x = random_image({2, 128, 20, 20}).abs(),
                   weight = random_image({64, 128, 3, 3}).abs();
  const at::Tensor dy = random_image({2, 64, 20, 20}).abs(), bias = at::rand({64});
  const Results exact = by_libtorch(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble),
                                    dy.to(at::kDouble));
  const auto ours = errors(by_winograd(x, weight, bias, dy), exact),
             theirs = errors(by_libtorch(x, weight, bias, dy), exact);
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_LE(ours[i], 8 * theirs[i] + 1e-7) << i << ", LibTorch " << theirs[i];
}

TEST(Winograd, HasBitsOfItsOwnPerSample) {
  const int before = at::get_num_threads();
  at::manual_seed(2);
  const at::Tensor x = random_image({5, 64, 13, 9}), weight = random_image({32, 64, 3, 3});
  at::set_num_threads(1);
  const at::Tensor y = winograd_conv2d(x, weight, {}), dx = winograd_input_gradient(y, weight);
  const auto of_weight = winograd_weight_gradient(x, y, true);
  for (const int threads : {2, 3, 64}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(winograd_conv2d(x, weight, {}), y)) << threads;
    EXPECT_TRUE(at::equal(winograd_input_gradient(y, weight), dx)) << threads;
    const auto first = winograd_weight_gradient(x, y, true),
               second = winograd_weight_gradient(x, y, true);
    EXPECT_TRUE(at::equal(first.first, second.first) && at::equal(first.second, second.second))
        << threads;
    EXPECT_LE(largest(first.first - of_weight.first), 1e-5 * largest(of_weight.first)) << threads;
  }
  at::set_num_threads(before);
  const at::Tensor one = x.narrow(0, 3, 1).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(at::equal(winograd_conv2d(one, weight, {}), y.narrow(0, 3, 1)))
      << "alone or in a batch";
}

TEST(Winograd, SharesBlocksBetweenThreadsWhereTheirSumsWouldTakeTooMuchMemory) {
  const int before = at::get_num_threads();
  const at::Tensor x = random_image({2, 1024, 8, 8}), dy = random_image({2, 1024, 8, 8});
  at::set_num_threads(1);
  const auto expected = winograd_weight_gradient(x, dy, true);
  at::set_num_threads(5);
  const auto found = winograd_weight_gradient(x, dy, true);
  EXPECT_TRUE(at::equal(found.first, expected.first))
      << "one part has all blocks, so that the sums have the same order";
  EXPECT_TRUE(at::equal(found.second, expected.second));
  at::set_num_threads(before);
}

TEST(Winograd, TakesWholeTilesOfChannels) {
  EXPECT_FALSE(winograd_takes(3, 32));
  EXPECT_FALSE(winograd_takes(32, 10));
  EXPECT_FALSE(winograd_takes(0, 32));
  EXPECT_ANY_THROW(winograd_conv2d(random_image({1, 3, 8, 8}), random_image({32, 3, 3, 3}), {}));
  EXPECT_ANY_THROW(winograd_conv2d(at::randn({1, 32, 8, 8}), random_image({32, 32, 3, 3}), {}))
      << "not channels_last";
}

}  // namespace
}  // namespace dtrain::kernels

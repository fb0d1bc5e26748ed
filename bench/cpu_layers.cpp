// Layers of our own on the CPU against LibTorch's (oneDNN): seconds of forward and
// backward, interleaved.
//
// usage: cpu_layers [THREADS [WORDS]]
//   WORDS  only what has them in its name
//
// LSTM: 64 sequences, 256 units, equal lengths, which oneDNN's LSTM takes as one call, and lengths
// from half(50) to half(400) rows at random, as the network of `sequence` has them, which it takes
// in groups of 8 of like length. Depthwise convolutions: those of mobilenet_v2 at 224 pixels,
// 16 images.
// Gradient of the weights of convolutions: those of headpose_cnn, resnet18 and mobilenet_v2 at 224
// pixels, 16 images. Winograd: the 3 x 3 convolutions among them with stride 1, forward
// and both gradients.

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "kernels/convolution.h"
#include "kernels/winograd.h"
#include "layers/convolution.h"
#include "layers/depthwise.h"
#include "layers/lstm.h"

namespace dtrain {
namespace {

constexpr int kRounds = 9;
std::string only;  // what has these words in its name

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Milliseconds of both, and the median of the ratios of each round.
void compare(const char* what, const std::function<void()>& theirs,
             const std::function<void()>& ours) {
  if (std::string(what).find(only) == std::string::npos) return;
  const auto milliseconds = [](const std::function<void()>& run) {
    const auto began = std::chrono::steady_clock::now();
    run();
    return 1e3 * seconds_since(began);
  };
  theirs();
  ours();
  std::vector<double> a, b, ratio;
  for (int round = 0; round < kRounds; ++round) {
    a.push_back(milliseconds(theirs));
    b.push_back(milliseconds(ours));
    ratio.push_back(a.back() / b.back());
  }
  std::printf("%-44s %8.2f ms %8.2f ms %6.2f x\n", what, median(a), median(b), median(ratio));
}

layers::LstmLayer make_layer(int64_t inputs, int64_t hidden) {
  const auto weight = [](at::IntArrayRef shape) {
    return at::randn(shape).mul_(0.05).set_requires_grad(true);
  };
  return {weight({4 * hidden, inputs}), weight({4 * hidden, hidden}), weight({4 * hidden}),
          weight({4 * hidden})};
}

at::Tensor by_libtorch(const layers::LstmLayer& layer, const at::Tensor& rows) {
  const at::Tensor zeros = at::zeros({1, rows.size(1), layer.weight_hh.size(1)});
  return std::get<0>(at::lstm(rows, {zeros, zeros},
                              {layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh},
                              true, 1, 0, true, false, false));
}

void compare_lstm(const char* what, const std::vector<int64_t>& lengths, int64_t group,
                  int64_t inputs) {
  const int64_t hidden = 256;
  const layers::LstmLayer layer = make_layer(inputs, hidden);
  const layers::PackedSteps steps =
      layers::pack_by_length(lengths.data(), static_cast<int64_t>(lengths.size()));
  const at::Tensor packed = at::randn({steps.rows(), inputs}).set_requires_grad(true);
  const auto samples = static_cast<int64_t>(lengths.size());
  const at::Tensor zeros = at::zeros({samples, hidden});
  std::vector<at::Tensor> groups;
  for (int64_t begin = 0; begin < samples; begin += group) {
    const int64_t longest = lengths[static_cast<size_t>(steps.order[static_cast<size_t>(begin)])];
    groups.push_back(
        at::randn({longest, std::min(group, samples - begin), inputs}).set_requires_grad(true));
  }
  compare(
      what,
      [&] {
        at::Tensor sum = at::zeros({});
        for (const at::Tensor& rows : groups) sum = sum + by_libtorch(layer, rows).sum();
        sum.backward();
      },
      [&] { layers::run_packed_lstm(layer, packed, steps, zeros, zeros).states.sum().backward(); });
}

void compare_depthwise(int64_t channels, int64_t size, int64_t stride) {
  const at::Tensor x =
      at::randn({16, channels, size, size}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor input = x.set_requires_grad(true),
                   weight = at::randn({channels, 1, 3, 3}).set_requires_grad(true);
  const at::Tensor dy =
      at::randn_like(at::conv2d(input, weight, {}, stride, 1, 1, channels).detach());
  const auto backward = [&](const at::Tensor& y) {
    torch::autograd::grad({y}, {input, weight}, {dy});
  };
  char what[64];
  std::snprintf(what, sizeof(what), "depthwise, %ld channels, %ld pixels, stride %ld",
                long(channels), long(size), long(stride));
  compare(
      what, [&] { backward(at::conv2d(input, weight, {}, stride, 1, 1, channels)); },
      [&] { backward(layers::depthwise_conv(input, weight, stride)); });
}

at::Tensor random_image(at::IntArrayRef sizes) {
  return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast);
}

struct Convolution {
  int64_t in, out, size, kernel, stride = 1;
};

void compare_weight_gradient(const Convolution& c) {
  const at::Tensor x = random_image({16, c.in, c.size, c.size}),
                   weight = random_image({c.out, c.in, c.kernel, c.kernel});
  const at::Tensor dy = random_image(at::conv2d(x, weight, {}, c.stride, c.kernel / 2).sizes());
  char what[64];
  std::snprintf(what, sizeof(what), "weights %ld x %ld, %ld to %ld, %ld pixels, stride %ld",
                long(c.kernel), long(c.kernel), long(c.in), long(c.out), long(c.size),
                long(c.stride));
  compare(
      what,
      [&] {
        at::convolution_backward(dy, x, weight, {}, c.stride, c.kernel / 2, 1, false, 0, 1,
                                 {false, true, false});
      },
      [&] { kernels::conv2d_weight_gradient(x, weight, dy, c.stride, c.kernel / 2, false); });
}

void compare_winograd(int64_t in, int64_t out, int64_t size) {
  if (!kernels::winograd_takes(in, out)) return;
  const at::Tensor x = random_image({16, in, size, size}), weight = random_image({out, in, 3, 3}),
                   dy = random_image({16, out, size, size});
  const auto compare_part = [&](const char* part, const std::function<void()>& theirs,
                                const std::function<void()>& ours) {
    char what[80];
    std::snprintf(what, sizeof(what), "Winograd, %s, %ld to %ld, %ld pixels", part, long(in),
                  long(out), long(size));
    compare(what, theirs, ours);
  };
  const auto backward = [&](bool of_input) {
    at::convolution_backward(dy, x, weight, {}, 1, 1, 1, false, 0, 1, {of_input, !of_input, false});
  };
  compare_part(
      "forward", [&] { at::conv2d(x, weight, {}, 1, 1); },
      [&] { kernels::winograd_conv2d(x, weight, {}); });
  compare_part(
      "input", [&] { backward(true); }, [&] { kernels::winograd_input_gradient(dy, weight); });
  compare_part(
      "weights", [&] { backward(false); },
      [&] { kernels::winograd_weight_gradient(x, dy, false); });
}

}  // namespace
}  // namespace dtrain

int main(int argc, char** argv) {
  using namespace dtrain;
  if (argc > 1) at::set_num_threads(std::atoi(argv[1]));
  if (argc > 2) only = argv[2];
  at::globalContext().setFlushDenormal(true);
  at::manual_seed(1);
  std::printf("%d threads%33s %11s %11s\n", at::get_num_threads(), "", "LibTorch", "dtrain");
  std::vector<int64_t> equal(64, 113), ragged;
  for (int i = 0; i < 64; ++i) ragged.push_back(at::randint(25, 201, {1}).item<int64_t>());
  compare_lstm("LSTM 128 to 256, 113 rows", equal, 64, 128);
  compare_lstm("LSTM 256 to 256, 113 rows", equal, 64, 256);
  compare_lstm("LSTM 128 to 256, 25 to 200 rows", ragged, 8, 128);
  compare_lstm("LSTM 8 to 256, 20 rows", std::vector<int64_t>(64, 20), 64, 8);
  for (const auto& [channels, size, stride] :
       {std::tuple(32, 112, 1), std::tuple(96, 112, 2), std::tuple(144, 56, 1),
        std::tuple(144, 56, 2), std::tuple(192, 28, 1), std::tuple(192, 28, 2),
        std::tuple(384, 14, 1), std::tuple(576, 14, 1), std::tuple(576, 14, 2),
        std::tuple(960, 7, 1)}) {
    compare_depthwise(channels, size, stride);
  }
  for (const Convolution& c : {Convolution{3, 32, 224, 3},
                               {32, 64, 112, 3},
                               {64, 128, 56, 3},
                               {128, 256, 28, 3},
                               {256, 512, 14, 3},
                               {3, 64, 224, 7, 2},
                               {64, 64, 56, 3},
                               {64, 128, 56, 3, 2},
                               {128, 128, 28, 3},
                               {256, 256, 14, 3},
                               {512, 512, 7, 3},
                               {3, 32, 224, 3, 2},
                               {16, 96, 112, 1},
                               {576, 96, 14, 1}}) {
    compare_weight_gradient(c);
  }
  for (const auto& [in, out, size] :
       {std::tuple(32, 64, 112), std::tuple(64, 128, 56), std::tuple(128, 256, 28),
        std::tuple(256, 512, 14), std::tuple(64, 64, 56), std::tuple(128, 128, 28),
        std::tuple(256, 256, 14), std::tuple(512, 512, 7), std::tuple(32, 64, 32),
        std::tuple(128, 256, 8), std::tuple(256, 512, 4)}) {
    compare_winograd(in, out, size);
  }
  return 0;
}

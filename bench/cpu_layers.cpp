// Layers of our own on the CPU against LibTorch's (oneDNN): seconds of forward and
// backward, interleaved.
//
// usage: cpu_layers [THREADS [WORDS]]
//   WORDS  only what has them in its name
//
// LSTM: 64 sequences, 256 units, equal lengths, which oneDNN's LSTM takes as one call, and lengths
// from half(50) to half(400) rows at random, as the network of `sequence` has them, which it takes
// in groups of 8 of like length. Winograd: the 3 x 3 convolutions with stride 1 of headpose_cnn and
// resnet18, 16 images of 224 pixels, forward and both gradients. norm: batch norm and what follows
// it. bottleneck: blocks of mobilenet_v2.

#include <ATen/Parallel.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "kernels/winograd.h"
#include "layers/batch_norm.h"
#include "layers/linear_bottleneck.h"
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

at::Tensor random_image(at::IntArrayRef sizes) {
  return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast);
}

// Batch norm, a residual if `residual`, ReLU, and max-pooling if `pool`, forward and backward.
void compare_norm(int64_t channels, int64_t size, bool residual, bool pool) {
  const at::Tensor x = random_image({16, channels, size, size}).set_requires_grad(true),
                   added = residual ? random_image(x.sizes()) : at::Tensor();
  layers::BatchNorm norm(channels);
  char what[80];
  std::snprintf(what, sizeof(what), "norm%s, ReLU%s, %ld channels, %ld pixels",
                residual ? ", residual" : "", pool ? ", pooling" : "", long(channels), long(size));
  compare(
      what,
      [&] {
        at::Tensor y = at::batch_norm(x, norm->weight, norm->bias, norm->running_mean,
                                      norm->running_var, true, 0.1, 1e-5, false);
        if (residual) y = y + added;
        y = at::relu_(y);
        (pool ? at::max_pool2d(y, 2) : y).sum().backward();
      },
      [&] {
        const layers::Epilogue epilogue{
            .activation = layers::Activation::kReLU, .residual = added, .max_pool = pool};
        norm->forward_with(x, epilogue).sum().backward();
      });
}

// An inverted residual block of mobilenet_v2 in training: its layers one by one, by LibTorch's
// convolutions and our batch norm, and as one operation.
void compare_bottleneck(int64_t channels, int64_t size, int64_t stride) {
  const int64_t hidden = 6 * channels;
  const at::Tensor x = random_image({16, channels, size, size}).set_requires_grad(true);
  layers::BatchNorm first(hidden), second(hidden);
  const auto weight = [](at::IntArrayRef shape) {
    return at::randn(shape).mul_(0.1).set_requires_grad(true);
  };
  const layers::LinearBottleneck block{.expansion = weight({hidden, channels, 1, 1}),
                                       .expansion_norm = first.get(),
                                       .depthwise = weight({hidden, 1, 3, 3}),
                                       .depthwise_norm = second.get(),
                                       .projection = weight({channels, hidden, 1, 1}),
                                       .stride = stride};
  if (!layers::is_fused(block, x)) return;
  char what[80];
  std::snprintf(what, sizeof(what), "bottleneck, %ld channels, %ld pixels, stride %ld",
                long(channels), long(size), long(stride));
  const layers::Epilogue relu6{.activation = layers::Activation::kReLU6};
  compare(
      what,
      [&] {
        const at::Tensor wide = first->forward_with(at::conv2d(x, block.expansion), relu6);
        const at::Tensor filtered = second->forward_with(
            at::conv2d(wide, block.depthwise, {}, stride, 1, 1, hidden), relu6);
        at::conv2d(filtered, block.projection).sum().backward();
      },
      [&] { layers::run(block, x).sum().backward(); });
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
  compare_norm(32, 112, /*residual=*/false, /*pool=*/true);
  compare_norm(64, 56, /*residual=*/true, /*pool=*/false);
  compare_norm(256, 14, /*residual=*/true, /*pool=*/false);
  for (const auto& [channels, size, stride] :
       {std::tuple(16, 112, 2), std::tuple(24, 56, 1), std::tuple(64, 14, 1)}) {
    compare_bottleneck(channels, size, stride);
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

#include "train/bf16_gain.h"

#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <vector>

#include "core/clock.h"
#include "layers/autocast.h"
#include "layers/lstm.h"
#include "text/strings.h"

namespace dtrain::train {
namespace {

constexpr double kWorthwhile = 1.2;
constexpr int kRounds = 5;
constexpr double kMostSeconds = 0.4;  // after which no round begins

// Not drawn from LibTorch's generator, whose state belongs to the run.
at::Tensor numbers(at::IntArrayRef shape) {
  return at::arange(c10::multiply_integers(shape)).sin().view(shape) * 0.1;
}
at::Tensor weights(at::IntArrayRef shape) { return numbers(shape).set_requires_grad(true); }

// The loss of a layer whose input learns too, as inside a network.
std::function<at::Tensor()> convolution() {
  constexpr auto kLast = at::MemoryFormat::ChannelsLast;
  const at::Tensor x = numbers({8, 64, 28, 28}).contiguous(kLast).set_requires_grad(true);
  const at::Tensor weight = numbers({64, 64, 3, 3}).contiguous(kLast).set_requires_grad(true);
  return [=] { return at::conv2d(x, weight, {}, /*stride=*/1, /*padding=*/1).sum(); };
}

std::function<at::Tensor()> lstm(int64_t units) {
  constexpr int64_t kSteps = 16, kSamples = 32, kMostUnits = 512;
  const int64_t hidden = std::min(units, kMostUnits);
  const layers::LstmLayer layer = {weights({4 * hidden, hidden}), weights({4 * hidden, hidden}),
                                   weights({4 * hidden}), weights({4 * hidden})};
  const at::Tensor x = weights({kSteps, kSamples, hidden}), zeros = at::zeros({kSamples, hidden});
  return [=] { return layers::run_lstm(layer, x, zeros, zeros).states.sum(); };
}

double seconds_of(const std::function<at::Tensor()>& loss_of, bool bf16) {
  const auto began = std::chrono::steady_clock::now();
  const at::Tensor loss = [&] {
    const layers::AutocastGuard autocast(
        {.device = at::kCPU, .enabled = bf16, .dtype = at::kBFloat16});
    return loss_of();
  }();
  loss.backward();
  return seconds_since(began);
}

}  // namespace

bool should_measure_bf16(config::AmpMode amp, at::DeviceType device, bool has_products) {
  return amp == config::AmpMode::kAuto && device == at::kCPU && has_products;
}

double measure_bf16_gain(data::SampleSpec::Kind kind, int64_t hidden) {
  const auto loss = kind == data::SampleSpec::Kind::kImage ? convolution() : lstm(hidden);
  try {
    for (const bool bf16 : {false, true})
      seconds_of(loss, bf16);  // the first run of each prepares kernels
    // oneDNN may be held to fewer instructions than the CPU has (ONEDNN_MAX_CPU_ISA)
  } catch (const std::exception&) {
    return 0;
  }
  const auto began = std::chrono::steady_clock::now();
  std::vector<double> gains;
  while (gains.empty() || (gains.size() < kRounds && seconds_since(began) < kMostSeconds)) {
    const double fp32 = seconds_of(loss, false);
    gains.push_back(fp32 / seconds_of(loss, true));
  }
  std::sort(gains.begin(), gains.end());
  return gains[gains.size() / 2];
}

std::string advise_bf16(double gain) {
  return gain < kWorthwhile ? ""
                            : str("a layer of this kind is ", fixed(gain, 1),
                                  " times as fast in bf16 on this CPU: try --amp bf16");
}

}  // namespace dtrain::train

#pragma once

// What a step computes of single numbers: the loss scaler, the sums of the losses, and which
// samples had a bad one. dtrain::train says what they mean (grad_scaler.h, note_losses.h,
// bad_loss.h). The CPU calls the functions, and a GPU runs each in one launch.
//
// Reason: launches, not their time. LibTorch's operators for the same numbers are 38 launches of a
// step on a GPU, and all of simple_cnn has 62 (tests/fake_gpu/budgets.txt). Delete them when whole
// steps are captured in a graph for every task.

#include <cstdint>

#include "core/host_device.h"
#include "kernels/launch_check.h"

namespace dtrain::kernels {

template <typename T>
DTRAIN_HD inline bool is_finite(T value) {
  return value - value == T(0);
}

// The numbers of a loss scaler, in memory of one device.
struct ScalerNumbers {
  float* scale;
  int32_t* growth_tracker;  // steps without overflow since the scale has changed
  float* found_inf;         // 0 or 1
  float* taken;             // 1 - found_inf, from the end of unscale_on_gpu() on
  int64_t* skipped;         // steps with an overflow
  const double* weight;     // divides the gradients; 0: no rank had samples
  double* factor;           // multiplies them
  float* factor32;
};

// factor = power / (scale × weight), where `power` is a power of two, and whether it is finite. In
// float64, because scale × weight may overflow float32. The division comes first: the power of two
// stays exact.
DTRAIN_HD inline double factor_of(const ScalerNumbers& of, double power) {
  return 1 / (static_cast<double>(*of.scale) * *of.weight) * power;
}
DTRAIN_HD inline void find_factor(const ScalerNumbers& of, double power) {
  const double factor = factor_of(of, power);
  *of.factor = factor;
  *of.factor32 = static_cast<float>(factor);
  *of.found_inf = is_finite(*of.factor32) ? 0.0f : 1.0f;
}

struct ScalerRule {
  bool changes = false;  // whether the scale does
  double growth = 2, backoff = 0.5;
  int64_t growth_interval = 2000;
};

// The end of a step, by the rule of torch.amp.GradScaler.
DTRAIN_HD inline void end_scaled_step(const ScalerNumbers& of, const ScalerRule& rule) {
  const bool overflow = *of.found_inf != 0 && *of.weight != 0;
  if (overflow) *of.skipped += 1;
  if (!rule.changes) return;
  if (overflow) {
    *of.scale = static_cast<float>(*of.scale * rule.backoff);
    *of.growth_tracker = 0;
  } else if (++*of.growth_tracker == rule.growth_interval) {
    const auto grown = static_cast<float>(*of.scale * rule.growth);
    if (is_finite(grown)) *of.scale = grown;
    *of.growth_tracker = 0;
  }
}

constexpr int64_t kNamedSamples = 8;

// The losses [samples] of a micro-step, and a record of the first micro-step with one that is not
// finite, [2 + kNamedSamples]: bad samples, all samples, and the ids of the first bad ones. Its
// first number is 0 until then.
template <typename T>
struct LossesOfSamples {
  const T* losses;
  const int64_t* ids;
  int64_t samples;
  int64_t* record;

  DTRAIN_HD bool is_noted() const { return record[0] != 0; }
  DTRAIN_HD bool is_bad(int64_t i) const { return !is_finite(losses[i]); }
  // Sample i is bad, and the `count`-th.
  DTRAIN_HD void name(int64_t count, int64_t i) const {
    if (count < kNamedSamples) record[2 + count] = ids[i];
  }
  DTRAIN_HD void end(int64_t count) const {
    if (count == 0) return;
    record[0] = count;
    record[1] = samples;
  }
};

template <typename T>
void note_bad_losses(const LossesOfSamples<T>& of) {
  if (of.is_noted()) return;
  int64_t count = 0;
  for (int64_t i = 0; i < of.samples; ++i)
    if (of.is_bad(i)) of.name(count++, i);
  of.end(count);
}

// What note_losses_on_gpu() does with the losses of a micro-step.
template <typename T>
struct NotedLosses {
  LossesOfSamples<T> of;
  double* sums;   // [2]: the losses and the weight are added
  double weight;  // unless weight_on_device is given
  const double* weight_on_device;
  const float* scale;
  double power;
  T* gradient;  // [samples]: each becomes scale × power
};

// The same, queued on `stream` (a cudaStream_t of the current device, which has the numbers).
// DeviceError in a build without GPU code.
[[nodiscard]] LaunchResult find_factor_on_gpu(const ScalerNumbers&, double power, void* stream);
[[nodiscard]] LaunchResult end_scaled_step_on_gpu(const ScalerNumbers&, const ScalerRule&,
                                                  void* stream);
// Notes the bad losses, sums all in float64 in one order, and writes the gradient.
template <typename T>
[[nodiscard]] LaunchResult note_losses_on_gpu(const NotedLosses<T>&, void* stream);

}  // namespace dtrain::kernels

#pragma once

// What the loops of batch norm on the CPU (batch_norm_loops.h) need of each channel, from tensors
// [C], and what becomes of their sums. Thread-safe.
//
// Gain: see batch_norm_cpu.h.

#include <c10/core/ScalarType.h>
#include <torch/types.h>

#include <vector>

#include "kernels/batch_norm_loops.h"
#include "kernels/batch_norm_types.h"

namespace dtrain::kernels::batch_norm {

template <typename Number>
std::vector<Number> numbers_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(c10::CppTypeToScalarType<Number>::value).contiguous();
  return {values.const_data_ptr<Number>(), values.const_data_ptr<Number>() + values.numel()};
}

// Values per channel that Coefficients can point to.
template <typename Number>
struct ChannelValues {
  explicit ChannelValues(const Affine& affine)
      : mean(numbers_of<Number>(affine.mean)),
        scale(numbers_of<Number>(affine.weight * affine.invstd)),
        bias(numbers_of<Number>(affine.bias)) {}

  // slope = sum(dy (x - mean)) / count / deviation², shift = sum(dy) / count
  void add_sums(const Affine& affine, const at::Tensor& gradient_sums, const at::Tensor& count) {
    const auto invstd = numbers_of<double>(affine.invstd);
    const double* sums = gradient_sums.const_data_ptr<double>();
    const double values = *count.const_data_ptr<double>();
    const size_t channels = mean.size();
    slope.resize(channels);
    shift.resize(channels);
    for (size_t c = 0; c < channels; ++c) {
      shift[c] = static_cast<Number>(sums[c] / values);
      slope[c] = static_cast<Number>(sums[channels + c] / values * invstd[c] * invstd[c]);
    }
  }

  Coefficients<Number> all() const {
    return {mean.data(), scale.data(), bias.data(), slope.empty() ? nullptr : slope.data(),
            shift.empty() ? nullptr : shift.data()};
  }

  std::vector<Number> mean, scale, bias, slope, shift;
};

// From sums [1 + 2 C] of which the second part is about an origin per channel, as NormLoops::sums
// adds them up, to those that batch_norm::sums() gives. sums[0]: the number of values, more than 0.
template <typename Number>
void move_sums_to_zero(const Number* origin, int64_t channels, double* sums) {
  for (int64_t c = 0; c < channels; ++c) {
    const double n = sums[0], offset = sums[1 + c],
                 mean = static_cast<double>(origin[c]) + offset / n;
    // Changes squares of deviations to squares
    sums[1 + channels + c] += mean * mean * n - offset * offset / n;
    sums[1 + c] = mean * n;
  }
}

}  // namespace dtrain::kernels::batch_norm

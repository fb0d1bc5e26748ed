#pragma once

// How fused convolutions read their tensors through a batch norm, by rows of all channels, and
// where they add up what the batch norms need. Rows are positions [C] of a tensor in channels_last,
// counted over all samples.
//
// Gain: see fused_convolutions.h.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "kernels/batch_norm_channels.h"
#include "kernels/fused_convolutions.h"

namespace dtrain::kernels::fused {

constexpr Activation kActivation = Activation::kReLU6;

inline at::Tensor empty_image(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::empty(sizes, options.memory_format(at::MemoryFormat::ChannelsLast));
}

// Rows [row, row + count) of the input [count, C]: where they are if there is no norm, else written
// to `memory`.
inline const float* read(const Input& in, int64_t row, int64_t count, float* memory) {
  const int64_t channels = in.x.size(1);
  const float* x = in.x.const_data_ptr<float>() + row * channels;
  if (in.norm == nullptr) return x;
  batch_norm::loops<float>().normalize({0, count * channels, channels}, in.norm->all(),
                                       {.x = x, .out = memory}, kActivation);
  return memory;
}

// The same of a gradient.
inline const float* read(const Gradient& gradient, int64_t row, int64_t count, float* memory) {
  const int64_t channels = gradient.dy.size(1);
  const float* dy = gradient.dy.const_data_ptr<float>() + row * channels;
  if (gradient.norm == nullptr) return dy;
  const float* y = gradient.y.const_data_ptr<float>() + row * channels;
  batch_norm::loops<float>().input_gradient({0, count * channels, channels}, gradient.norm->all(),
                                            {.x = y, .dy = dy, .out = memory}, kActivation);
  return memory;
}

// Adds the gradient sums of rows whose gradient after norm and ReLU6 is dx.
inline void add_gradient_sums(const Input& in, int64_t row, int64_t count, const float* dx,
                              double* sums) {
  const int64_t channels = in.x.size(1);
  const float* x = in.x.const_data_ptr<float>() + row * channels;
  batch_norm::loops<float>().gradient_sums({0, count * channels, channels}, in.norm->all(),
                                           {.x = x, .dy = dx}, kActivation, sums);
}

inline float* row_of(const at::Tensor& image, int64_t row) {
  return image.mutable_data_ptr<float>() + row * image.size(1);
}

// Two sums per channel, of chunks that different threads may add up: the same for any number
// of threads.
class ChunkSums {
 public:
  ChunkSums(int64_t chunks, int64_t channels)
      : channels_(channels), sums_(at::zeros({chunks, 2 * channels}, at::kDouble)) {}

  double* of(int64_t chunk) { return sums_.mutable_data_ptr<double>() + chunk * 2 * channels_; }

  at::Tensor values() const { return sums_.sum(0); }  // [2 C]

  // [1 + 2 C]: from sums about an origin per channel, of `count` values of each.
  at::Tensor values_about(const std::vector<float>& origin, int64_t count) const {
    const at::Tensor result = at::empty({1 + 2 * channels_}, at::kDouble);
    auto* to = result.mutable_data_ptr<double>();
    to[0] = static_cast<double>(count);
    result.narrow(0, 1, 2 * channels_).copy_(values());
    batch_norm::move_sums_to_zero(origin.data(), channels_, to);
    return result;
  }

 private:
  int64_t channels_;
  at::Tensor sums_;
};

}  // namespace dtrain::kernels::fused

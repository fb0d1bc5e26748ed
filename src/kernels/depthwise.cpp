#include "kernels/depthwise.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/intra_op.h"

namespace dtrain::kernels::depthwise {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
constexpr int64_t kPartElements = 64 << 10;  // result elements that one thread works on at a time
constexpr int64_t kMostParts = 256;          // limit for the partial sums of the weight gradient

at::Tensor zeros_for(const DepthwiseShape& s, const at::Tensor& x) {
  return at::zeros({s.width * s.channels}, x.options());
}

// The rows of x around a row of the output, which are counted over all samples.
WindowRows rows_of(const DepthwiseShape& s, const at::Tensor& x, int64_t row,
                   const at::Tensor& zeros) {
  const float* sample =
      x.const_data_ptr<float>() + row / s.out_height() * s.height * s.width * s.channels;
  return rows_around(s, sample, row % s.out_height(), zeros.const_data_ptr<float>());
}

// Calls body(begin, end) for rows of `width` elements.
template <typename Body>
void for_rows(int64_t rows, int64_t width, const Body& body) {
  intra_op_for(0, rows, 1 + kPartElements / std::max<int64_t>(width, 1), body);
}

}  // namespace

DepthwiseShape shape_of(at::IntArrayRef x, int64_t stride) { return {x[1], x[2], x[3], stride}; }

at::Tensor by_tap(const at::Tensor& weight) { return weight.view({-1, 9}).t().contiguous(); }

at::Tensor weight_of_parts(const at::Tensor& parts) {
  return parts.sum(0, /*keepdim=*/false, at::kDouble)
      .to(at::kFloat)
      .t()
      .contiguous()
      .view({-1, 1, 3, 3});
}

at::Tensor convolve(const DepthwiseShape& s, const at::Tensor& x, const at::Tensor& taps) {
  const int64_t height = s.out_height(), width = s.out_width();
  const at::Tensor y =
      at::empty({x.size(0), s.channels, height, width}, x.options().memory_format(kChannelsLast));
  const at::Tensor zeros = zeros_for(s, x);
  for_rows(x.size(0) * height, width * s.channels, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      convolve(s, rows_of(s, x, row, zeros), taps.const_data_ptr<float>(),
               y.mutable_data_ptr<float>() + row * width * s.channels);
    }
  });
  return y;
}

at::Tensor input_gradient(const DepthwiseShape& s, const at::Tensor& dy, const at::Tensor& taps) {
  if (s.stride == 1) return convolve(s, dy, taps.flip(0));
  const at::Tensor dx = at::empty({dy.size(0), s.channels, s.height, s.width},
                                  dy.options().memory_format(kChannelsLast));
  const at::Tensor zeros = zeros_for(s, dy);
  const int64_t line = s.out_width() * s.channels;
  for_rows(dy.size(0) * s.height, s.width * s.channels, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t of_sample = row % s.height, from = of_sample / 2;
      const float* at =
          dy.const_data_ptr<float>() + (row / s.height * s.out_height() + from) * line;
      const float* none = zeros.const_data_ptr<float>();
      spread(s, of_sample % 2 == 1, at, from + 1 < s.out_height() ? at + line : none,
             taps.const_data_ptr<float>(), none,
             dx.mutable_data_ptr<float>() + row * s.width * s.channels);
    }
  });
  return dx;
}

// In parts that are the same for any number of threads, added up in order.
at::Tensor weight_gradient(const DepthwiseShape& s, const at::Tensor& x, const at::Tensor& dy) {
  const int64_t rows = dy.size(0) * s.out_height(), elements = rows * s.out_width() * s.channels;
  const int64_t wanted = std::clamp<int64_t>(elements / kPartElements, 1, kMostParts);
  const int64_t rows_per_part = std::max<int64_t>(1, (rows + wanted - 1) / wanted);
  const int64_t parts = std::max<int64_t>(1, (rows + rows_per_part - 1) / rows_per_part);
  const at::Tensor of_parts = at::zeros({parts, 9, s.channels}, x.options()),
                   zeros = zeros_for(s, x);
  intra_op_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t row = part * rows_per_part; row < std::min(rows, (part + 1) * rows_per_part);
           ++row) {
        add_weight_gradient(s, rows_of(s, x, row, zeros),
                            dy.const_data_ptr<float>() + row * s.out_width() * s.channels,
                            of_parts.mutable_data_ptr<float>() + part * 9 * s.channels);
      }
    }
  });
  return weight_of_parts(of_parts);
}

}  // namespace dtrain::kernels::depthwise

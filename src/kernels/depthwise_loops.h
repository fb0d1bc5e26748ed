#pragma once

// The innermost loops of a depthwise 3 x 3 convolution with padding 1 on the CPU, channels last, in
// float, with the widest vectors that the CPU has (os/vector_set.h). They know nothing of threads
// and tensors (fused_convolutions.h does).
//
// Gain: see fused_convolutions.h.

#include <cstdint>

namespace dtrain::kernels::depthwise {

struct DepthwiseShape {
  int64_t channels, height, width;  // sizes of the input [B, H, W, C]
  int64_t stride;                   // 1 or 2
  int64_t out_height() const { return (height - 1) / stride + 1; }
  int64_t out_width() const { return (width - 1) / stride + 1; }
};

// Three successive rows of x, [width, channels] each, the middle one being row `stride * r` of a
// sample for row r of the output. Beyond the first and the last row of the sample they are zeros.
struct WindowRows {
  const float* row[3];
};

inline WindowRows rows_around(const DepthwiseShape& s, const float* sample, int64_t out_row,
                              const float* zeros) {
  WindowRows rows = {};
  for (int64_t ky = 0; ky < 3; ++ky) {
    const int64_t y = out_row * s.stride - 1 + ky;
    rows.row[ky] = y < 0 || y >= s.height ? zeros : sample + y * s.width * s.channels;
  }
  return rows;
}

// Weights lie as [3, 3, C]. Each call computes one row.
struct DepthwiseLoops {
  void (*convolve)(const DepthwiseShape&, const WindowRows& x, const float* weights, float* y);

  // With stride 2, a row dx [W, C] of the gradient: an even one from row `at` of dy, an odd one
  // also from the row `below` that follows, which is of zeros after the last. `zeros`: [C]. With
  // stride 1 the gradient is a convolution of dy with the weights in the opposite order.
  void (*spread)(const DepthwiseShape&, bool odd, const float* at, const float* below,
                 const float* weights, const float* zeros, float* dx);

  // Adds the gradient of the weights by a row of dy.
  void (*add_weight_gradient)(const DepthwiseShape&, const WindowRows& x, const float* dy,
                              float* dw);
};
const DepthwiseLoops& loops();  // uses the widest vectors of the CPU; thread-safe

}  // namespace dtrain::kernels::depthwise

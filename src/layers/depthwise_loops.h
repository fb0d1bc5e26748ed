#pragma once

// The innermost loops of a depthwise 3 x 3 convolution with padding 1 on the CPU, channels last, in float, with the
// widest vectors that the CPU has (core/vector_set.h). They know nothing of threads and tensors (depthwise.h does).

#include <cstdint>

namespace dtrain::layers::depthwise {

struct Shape {
  int64_t channels, height, width;  // of the input [B, H, W, C]
  int64_t stride;                   // 1 or 2
  int64_t out_height() const { return (height - 1) / stride + 1; }
  int64_t out_width() const { return (width - 1) / stride + 1; }
};

// Weights lie as [3, 3, C]. Of a result the rows [begin, end) of all samples are computed. `zeros`: width * channels of
// them. Different rows may be computed at the same time.

// y [B, OH, OW, C] from x.
void convolve(const Shape&, const float* x, const float* weights, const float* zeros, int64_t begin, int64_t end,
              float* y);

// With stride 2, the gradient dx [B, H, W, C] from dy [B, OH, OW, C]. With stride 1 that is a convolution with the
// weights in the opposite order.
void spread(const Shape&, const float* dy, const float* weights, const float* zeros, int64_t begin, int64_t end,
            float* dx);

// Adds the gradient of the weights by rows of dy.
void add_weight_gradient(const Shape&, const float* x, const float* dy, const float* zeros, int64_t begin, int64_t end,
                         float* dw);

}  // namespace dtrain::layers::depthwise

#pragma once

// The innermost loops of the gradient of a convolution's weights on the CPU, channels last, in
// float, with the widest vectors that the CPU has (os/vector_set.h). They know nothing of threads
// and tensors (convolution.h does).
//
// For each row of the kernel that gradient is a matrix product over all positions of the output: of
// the window of x below the row, kernel_width * in_channels values that lie side by side, and of
// the channels of dy. It is computed in tiles that stay in registers while they run over a block of
// positions (K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008).

#include <cstdint>

namespace dtrain::kernels::convolution {

struct ConvShape {
  int64_t in_channels, height, width;           // sizes of x [B, H, W, C]
  int64_t out_channels, out_height, out_width;  // sizes of y [B, OH, OW, O]
  int64_t kernel_height, kernel_width, stride, padding;
  int64_t window() const { return kernel_width * in_channels; }
  int64_t taps() const { return kernel_height * window(); }
};

int64_t tile_width();  // how many channels of y a tile has

// Adds the products of the rows [begin, end) of dy, of all samples, to sums [tiles, taps,
// tile_width], of which only the tiles [tile, tile_end) are touched. bias [O]: nullptr, or receives
// the sums of the channels of those tiles. Calls may run at the same time if they have other tiles
// or other sums.
void add_weight_gradient(const ConvShape&, const float* x, const float* dy, int64_t begin,
                         int64_t end, int64_t tile, int64_t tile_end, float* sums, double* bias);

}  // namespace dtrain::kernels::convolution

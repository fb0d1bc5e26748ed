#pragma once

// The innermost loops of a 3 x 3 convolution with stride 1 and padding 1 on the CPU, channels last,
// in float, by Winograd's algorithm F(2 x 2, 3 x 3) (A. Lavin and S. Gray, Fast Algorithms for
// Convolutional Neural Networks, CVPR 2016; the names of its matrices are used here), with the
// widest vectors that the CPU has (os/vector_set.h). They know nothing of threads and tensors
// (winograd.h does).
//
// The output is cut into tiles of 2 x 2, each of which sees a patch of 4 x 4 of the input. Patches
// and kernels are transformed to 16 values each; for each of the 16 a matrix product over the
// channels gives that of the tile, and a transform of those the output: 16 multiplications in place
// of 36. The transforms only add, and halve in that of the kernel, so that results are about as
// exact as those of the sum itself. Larger tiles would multiply less, and round more.
//
// Gain: see winograd.h.

#include <cstdint>

namespace dtrain::kernels::winograd {

constexpr int64_t kValues = 16;  // numbers in a transformed patch, kernel or tile

// [B, height, width, channels], in which tiles are numbered row by row, one sample after the other.
// The channels are a whole number of vectors.
struct TileImage {
  int64_t height, width, channels;
  int64_t tiles_across() const { return (width + 1) / 2; }
  int64_t tiles() const { return (height + 1) / 2 * tiles_across(); }  // per sample
};

// A kernel by tile of columns: [outer / tile, kValues, inner, tile]. inner, outer: channels that a
// product sums over and has as its result.
struct WinogradLoops {
  int64_t tile;  // columns: of how many channels a product has the result in registers

  // values [kValues, tiles of the range, stride], of which `channels` are set: B^T d B of the
  // patches of tiles [begin, end). zeros [channels].
  void (*transform_patches)(const TileImage&, const float* x, const float* zeros, int64_t begin,
                            int64_t end, float* values, int64_t stride);
  // Columns [column, column + tile) of y: A^T m A + bias, from values [kValues, tiles of the
  // range, tile].
  void (*transform_results)(const TileImage& y_shape, const float* values, const float* bias,
                            int64_t begin, int64_t end, int64_t column, float* y);
  // values [kValues, tiles of the range, tile]: A dy A^T of columns [column, column + tile). Adds
  // the sums of dy to bias [tile], which may be nullptr.
  void (*transform_gradients)(const TileImage& dy_shape, const float* dy, int64_t begin,
                              int64_t end, int64_t column, float* values, double* bias);
  // sums [kValues, inner, tile] += values_of_x^T · values_of_dy, both of `count` tiles, as the
  // transforms leave them.
  void (*add_products)(const float* x, int64_t stride, const float* dy, int64_t count,
                       int64_t inner, float* sums);
  // G g G^T for the tile `column / tile` of a kernel, from weights [out, 3, 3, in]: for the
  // convolution itself (inner = in), or for the gradient of its input (inner = out), which is a
  // convolution with the kernels turned around.
  void (*transform_kernels)(const float* weights, int64_t out, int64_t in, int64_t column,
                            float* values);
  void (*transform_turned_kernels)(const float* weights, int64_t out, int64_t in, int64_t column,
                                   float* values);
  // The gradient of weights[column .. column + tile) from `parts` sums [kValues, in, tile], each
  // `distance` apart.
  void (*gradient_of_kernels)(const float* sums, int64_t parts, int64_t distance, int64_t in,
                              int64_t column, float* weights);
};
const WinogradLoops& loops();  // uses the widest vectors of the CPU; thread-safe

}  // namespace dtrain::kernels::winograd

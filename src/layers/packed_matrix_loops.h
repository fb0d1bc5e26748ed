#pragma once

// The innermost loops of packed_matrix.h: a product of float matrices, with the widest vectors that the CPU has
// (core/vector_set.h). They know nothing of threads and tensors.

#include <cstdint>

namespace dtrain::layers {

// y [rows, columns] = start + x [rows, inner] · matrix, all in C order with rows x_stride and y_stride apart.
struct MatrixProduct {
  const float* x = nullptr;
  int64_t x_stride = 0;
  const float* tiles = nullptr;  // the matrix: by tile of `MatrixLoops::tile` columns [inner, tile], zeros at the end
  int64_t inner = 0, columns = 0;
  const float* start = nullptr;  // [columns], for each row; nullptr: what y holds
  float* y = nullptr;
  int64_t y_stride = 0;
};

struct MatrixLoops {
  int64_t tile;  // columns
  // Rows [row, row_end) and tiles [tile, tile_end) of y.
  void (*multiply)(const MatrixProduct&, int64_t row, int64_t row_end, int64_t tile, int64_t tile_end);
};
const MatrixLoops& matrix_loops();  // of the widest vectors; thread-safe

}  // namespace dtrain::layers

#pragma once

// Products of float matrices that many small products use, such as the weights of an LSTM, which
// multiply a few rows per step, with the widest vectors that the CPU has (os/vector_set.h). Plain
// memory: no threads, no tensors.
//
// A matrix [rows, columns] in panels is stored as [panels, rows, PanelLoops::tile]: the first
// `tile` columns of all rows, then the next ones, with zeros where the last panel has no columns. A
// product reads and writes it in order, whereas rows that are a multiple of 4 KiB apart share a few
// lines of the first cache.
//
// Each result is one sum in the order of the inner dimension: its bits do not depend on the
// other rows.
//
// Gain: see lstm.h, fused_convolutions.h and winograd.h, which use them. They reach 97 % of the
// multiplications that a core can make (build/bench/cpu_layers 1 LSTM).

#include <cstdint>

namespace dtrain::kernels {

// y [rows, columns] = start + x [rows, inner] · weights [inner, columns].
struct PanelProduct {
  // rows `x_stride` apart, of `x_width` numbers; then the next `x_width` columns, `x_panel` on
  const float* x = nullptr;
  int64_t x_stride = 0, x_width = 0, x_panel = 0;
  const float* weights = nullptr;  // stored in panels
  int64_t inner = 0, columns = 0;  // inner: a multiple of x_width
  const float* start = nullptr;    // [panels, tile], for each row; nullptr: what y holds
  float* y = nullptr;              // rows `y_stride` apart, panels `y_panel` apart
  int64_t y_stride = 0, y_panel = 0;
};

struct PanelLoops {
  int64_t tile, rows;  // columns of a panel; rows that are computed together

  // Rows [row, row_end) of a panel of y.
  void (*multiply)(const PanelProduct&, int64_t panel, int64_t row, int64_t row_end);

  // Adds x^T · dy to sums [columns, tile]: x has `columns` numbers in each of `rows` rows, which
  // begin at x[0], x[1], ...; dy [rows, tile] is a panel.
  void (*add_transposed)(const float* const* x, int64_t rows, int64_t columns, const float* dy,
                         float* sums);

  // Adds the rows of a panel [rows, tile] to sums [tile].
  void (*add_rows)(const float* panel, int64_t rows, float* sums);
};
const PanelLoops& panel_loops();  // uses the widest vectors of the CPU; thread-safe

}  // namespace dtrain::kernels

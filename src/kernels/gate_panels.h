#pragma once

// Weights of an LSTM [4H, in], float, in the panels of panel_products.h and back. The gates' rows
// are grouped by units, as lstm_loops.h has them: panel 4g + i has gate i of the units [g tile, (g
// + 1) tile). Units from H on are zero.
//
// Gain: see lstm.h.
//
// Thread-safety: pure functions.

#include <torch/types.h>

#include <cstdint>

namespace dtrain::kernels {

struct GatePanels {
  int64_t hidden, tile;

  int64_t groups() const { return (hidden + tile - 1) / tile; }
  int64_t panels() const { return 4 * groups(); }
  int64_t rows() const { return panels() * tile; }

  // [4H, in] -> weight^T in panels [panels, in, tile]
  at::Tensor transposed(const at::Tensor& weight) const;
  // [4H, in] -> weight in panels [ceil(in / tile), rows, tile]
  at::Tensor straight(const at::Tensor& weight) const;
  at::Tensor restored(const at::Tensor& transposed) const;  // [panels, in, tile] -> [4H, in]

 private:
  // [4H, in] -> [groups, 4, tile, in], a view where it can be
  at::Tensor by_group(const at::Tensor& weight) const;
};

}  // namespace dtrain::kernels

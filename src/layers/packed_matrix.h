#pragma once

// A matrix that many small products use, such as the weights of an LSTM, which multiply a few rows per step. It is
// packed once, so that each product reads it in order: a matrix product of a library packs it again each time.
//
// float32 uses loops of our own, in which each result is one sum in the order of the inner dimension: its bits depend
// neither on the number of threads nor on the other rows. float64 uses at::addmm.
//
// Thread-safety: const methods, any thread, on LibTorch's threads. Ownership: keeps a copy; a handle if it is float64.

#include <torch/types.h>

#include "layers/packed_matrix_loops.h"

namespace dtrain::layers {

class PackedMatrix {
 public:
  explicit PackedMatrix(const at::Tensor& matrix);  // [K, N], float32 or float64, on the CPU, any strides

  // x [rows, K] and y [rows, N] have contiguous rows; start [N].
  void multiply(const at::Tensor& x, const at::Tensor& start, at::Tensor y) const;  // y = start + x · matrix
  void add_product(const at::Tensor& x, at::Tensor y) const;                        // y += x · matrix

 private:
  void run(const at::Tensor& x, const float* start, const at::Tensor& y) const;

  const MatrixLoops* loops_ = nullptr;
  int64_t inner_, columns_;
  at::Tensor matrix_;  // float32: tiles, as MatrixProduct has them
};

}  // namespace dtrain::layers

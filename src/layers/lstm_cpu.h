#pragma once

// One LSTM layer over packed rows on the CPU, float32 or float64, with its own backward pass: the products with the
// inputs of all steps at once, then for each step one product with the states and one pass over the gates. Both passes
// compute only rows that exist, with weights that are packed once (packed_matrix.h). oneDNN's LSTM, which LibTorch
// calls, runs padded rows only (bench/cpu_layers.cpp compares them).
//
// Thread-safety: any thread, on LibTorch's threads.

#include "layers/lstm.h"
#include "layers/packed_steps.h"

namespace dtrain::layers::cpu {

// rows [N, in]; h, c [B, H] in the packed order; all of one type. Returns states [N, H], and h, c after the last row of
// each sequence. Results depend on the number of threads only in the gradients of the weights, as those of at::mm do.
LstmResult run_lstm(const LstmLayer&, const at::Tensor& rows, const PackedSteps&, const at::Tensor& h,
                    const at::Tensor& c);

}  // namespace dtrain::layers::cpu

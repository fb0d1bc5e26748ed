#pragma once

// One LSTM layer over packed rows on the CPU, in float32, with its own backward pass. Both passes
// compute only rows that exist, step by step: the products with a step's rows and states and then
// its gates while they are in the cache, with weights that are packed once (gate_panels.h).
// oneDNN's LSTM, which LibTorch calls, runs padded rows only (bench/cpu_layers.cpp compares them).
//
// Thread-safety: any thread, on LibTorch's threads.

#include "layers/lstm.h"
#include "layers/packed_steps.h"

namespace dtrain::layers::cpu {

// rows [N, in]; h, c [B, H] in the packed order; float32. Returns states [N, H], and h, c after the
// last row of each sequence. All results and gradients have the same bits for any number
// of threads.
LstmResult run_lstm(const LstmLayer&, const at::Tensor& rows, const PackedSteps&,
                    const at::Tensor& h, const at::Tensor& c);

}  // namespace dtrain::layers::cpu

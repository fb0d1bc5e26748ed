#pragma once

// One LSTM layer over packed rows on the CPU, in float32, and its gradients. Both passes compute
// only rows that exist, step by step: the products with a step's rows and states and then its gates
// while they are in the cache, with weights that are packed once (gate_panels.h). oneDNN's LSTM,
// which LibTorch calls, runs padded rows only. No bit of a result depends on the number of threads.
//
// Gain (bench/kernel_gains.py lstm): a step of `sequence` is 1.10 times as fast as with LibTorch's
// LSTM, of `pointer` 1.15 times. build/bench/cpu_layers 2 LSTM times the layer alone. Delete it
// when LibTorch's LSTM skips padding, and a row has the same bits in each batch.
//
// Rows are packed as layers/packed_steps.h describes it: [N, C], step after step; the sequences of
// a step are the first ones of the step before. Thread-safety: any thread, on LibTorch's threads.

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace dtrain::kernels {

// The rows of a step in packed tensors.
struct PackedStep {
  int64_t begin, count;
};
// counts: for each step the number of sequences that have it.
std::vector<PackedStep> packed_steps(at::IntArrayRef counts);

struct LstmWeights {
  at::Tensor ih, hh,
      bias;  // [4H, in], [4H, H], [4H]; in torch's order: input, forget, cell, output
};

struct LstmForward {
  // The values of the gates in panels [panels, N, tile]; [N, H], [N, H]
  at::Tensor gates, cells, states;
};

// rows [N, in]; h, c [B, H]: the first states and cells.
LstmForward lstm_forward(const at::Tensor& rows, const LstmWeights&, const at::Tensor& h,
                         const at::Tensor& c, const std::vector<PackedStep>&);

// Copies what each sequence has after its last row into last [B, H].
void copy_last(const at::Tensor& packed, const std::vector<PackedStep>&, const at::Tensor& last);

// Which gradients are asked for.
struct LstmNeeds {
  bool rows = false, ih = false, hh = false, bias = false;
};

struct LstmGradients {
  at::Tensor rows, ih, hh, bias;  // those that were asked for; perhaps others
};

// of_states [N, H]: the gradient of the states, or undefined. of_h, of_c [B, H]: the gradients of
// the last state and cell of each sequence, which become those of the first.
LstmGradients lstm_backward(const LstmForward&, const at::Tensor& rows, const LstmWeights&,
                            const at::Tensor& h, const at::Tensor& c, const at::Tensor& of_states,
                            const at::Tensor& of_h, const at::Tensor& of_c, LstmNeeds,
                            const std::vector<PackedStep>&);

}  // namespace dtrain::kernels

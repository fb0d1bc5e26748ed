#pragma once

// Single LSTM layers, so that keyed dropout can be applied between the layers of a stack. The
// parameters have the names of torch.nn.LSTM (weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
// weight_ih_l1, ...). On a GPU each call is one fused operation of cuDNN (in float32 under bf16
// autocast, see lstm.cpp). On the CPU it is our own (kernels/lstm.h), which skips the padding of
// packed sequences; bfloat16 runs in oneDNN's LSTM if the CPU has products of bfloat16, and in
// float32 otherwise; float64 runs in LibTorch's.

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "layers/packed_steps.h"

namespace dtrain::layers {

struct LstmLayer {
  // [4H, in], [4H, H], [4H], [4H]; the gates are in torch's order: input, forget, cell, output.
  at::Tensor weight_ih, weight_hh, bias_ih, bias_hh;
};

struct LstmResult {
  at::Tensor states;  // [T, B, H], packed: [N, H]
  at::Tensor h, c;    // [B, H], after the last row of each sample
};

// rows [T, B, in] (time first, the layout of the fused operation), h and c [B, H]; zero if both
// are undefined.
LstmResult run_lstm(const LstmLayer&, const at::Tensor& rows, const at::Tensor& h = {},
                    const at::Tensor& c = {});

// One row of each sample, [B, in]; returns {h, c} after it, like run_lstm().
std::pair<at::Tensor, at::Tensor> run_lstm_cell(const LstmLayer&, const at::Tensor& row,
                                                const at::Tensor& h, const at::Tensor& c);

// Like run_lstm(), but h and c are those after row lengths[b] - 1 (lengths int64 [B], 1 to T). The
// result is that of a packed sequence, with one fused operation and without reading the lengths on
// the host: an extra input column marks the rows beyond a length, which drives the forget gate to 1
// and the input gate to 0, so that c keeps its bits; h is gathered from the states. States beyond
// the lengths are undefined.
LstmResult run_padded_lstm(const LstmLayer&, const at::Tensor& rows, const at::Tensor& lengths,
                           const at::Tensor& h, const at::Tensor& c);

// Whether sequences like these rows should run packed: on the CPU, except where oneDNN's LSTM
// is used.
bool runs_packed(const at::Tensor& rows);

// rows [N, in] of the steps; h, c [B, H] in the packed order. For rows that runs_packed() accepts.
// Results are float32, or of the weights' type if that is another.
LstmResult run_packed_lstm(const LstmLayer&, const at::Tensor& rows, const PackedSteps&,
                           const at::Tensor& h, const at::Tensor& c);

// The parameters of a stack of layers. The constructor does not initialize their values.
class LstmParameters : public torch::nn::Module {
 public:
  LstmParameters(int64_t inputs, int64_t hidden, int64_t layers);
  LstmLayer layer(int64_t index) const;

  // On a GPU the weights of a layer then lie in one piece of memory, in cuDNN's order; a call would
  // gather them otherwise.
  void to(torch::Device, bool non_blocking = false) override;
  using Module::to;

 private:
  std::vector<LstmLayer> layers_;
};

}  // namespace dtrain::layers

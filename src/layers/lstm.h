#pragma once

// One LSTM layer at a time, under the names that torch.nn.LSTM gives its parameters (weight_ih_l0, weight_hh_l0,
// bias_ih_l0, bias_hh_l0, weight_ih_l1, ...), so that keyed dropout can stand between layers. Each call is one fused
// operation: oneDNN's on the CPU (float32 and bfloat16; not packed, at least one row), cuDNN's on the GPU (under bf16
// autocast in float32, see lstm.cpp).

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>

namespace dtrain::layers {

struct LstmLayer {
  at::Tensor weight_ih, weight_hh, bias_ih,
      bias_hh;  // [4H, in], [4H, H], [4H], [4H]; gates i, f, g, o as torch has them
};

struct LstmResult {
  at::Tensor states;  // [T, B, H]
  at::Tensor h, c;    // [B, H], after the last row
};

// rows [T, B, in] (time first: what the fused operation computes on), h and c [B, H].
LstmResult run_lstm(const LstmLayer&, const at::Tensor& rows, const at::Tensor& h, const at::Tensor& c);

// One row of each sample, [B, in]: {h, c} after it, as run_lstm() gives them.
std::pair<at::Tensor, at::Tensor> run_lstm_cell(const LstmLayer&, const at::Tensor& row, const at::Tensor& h,
                                                const at::Tensor& c);

// As run_lstm(), but h and c are those after row lengths[b] - 1 (lengths int64 [B], 1 to T): what a packed sequence
// gives, with one fused operation and no look at the lengths. Rows beyond a length carry a mark that drives the forget
// gate to 1 and the input gate to 0, so that c stays what it was, bit for bit; h is picked out of the states. States
// beyond the lengths are of no account.
LstmResult run_padded_lstm(const LstmLayer&, const at::Tensor& rows, const at::Tensor& lengths, const at::Tensor& h,
                           const at::Tensor& c);

class LstmParameters : public torch::nn::Module {
 public:
  LstmParameters(int64_t inputs, int64_t hidden, int64_t layers);  // values not set
  LstmLayer layer(int64_t index) const;

 private:
  std::vector<LstmLayer> layers_;
};

}  // namespace dtrain::layers

#pragma once

// The network of task `sequence`: two convolutions over time, two LSTM layers, the last valid hidden state, a linear
// layer; and a transposed convolution that rebuilds the rows from all hidden states. In Python it is
//
//   conv1 = Conv1d(F, 64, 5, padding=2, bias=False); bn1 = BatchNorm1d(64)                 # then ReLU
//   conv2 = Conv1d(64, 128, 5, stride=2, padding=2, bias=False); bn2 = BatchNorm1d(128)    # then ReLU
//   lstm = LSTM(128, hidden, num_layers=2, batch_first=True); fc = Linear(hidden, classes)
//   reconstruct = ConvTranspose1d(hidden, F, 4, stride=2, padding=1)
//
// with those names and shapes of parameters. What lies beyond a sequence's length is zero after each block, and batch
// norm counts valid positions only, so a sequence's output does not depend on its batch (in eval mode; rounding aside).
//
// Sequences of unequal length: on the CPU the LSTM runs over groups of like length, each only as long as its longest
// sequence. The fused kernel has no packed form, and it is no slower per row on a group than on the whole batch, so
// what padding there was is saved (bench/sequence_vs_python.py). On a GPU the whole padded batch goes at once, since
// looking at the lengths would stop the host. Both give the packed form's result, because the LSTM only looks back.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "layers/batch_norm.h"
#include "layers/lstm.h"
#include "models/models.h"

namespace dtrain::models {

struct CnnLstmOptions {
  int64_t features = 1;  // F, of a row
  int64_t classes = 2;
  int64_t hidden = 256;     // units of each LSTM layer
  double dropout = 0.3;     // of the last hidden state; while training, classify() needs a RandomScope if above 0
  double lstm_dropout = 0;  // between the LSTM layers, likewise
  uint64_t seed = 1;        // initial weights are keyed by (seed, parameter name)
};

// Sequences that go through the LSTM together: [begin, begin + count) of the order, up to `longest` rows.
struct LengthGroup {
  int64_t begin = 0, count = 0, longest = 0;
  bool operator==(const LengthGroup&) const = default;
};
struct LengthGroups {
  std::vector<int64_t> order;  // positions in the batch, by falling length; equal lengths keep their order
  std::vector<LengthGroup> groups;
};
// Cuts the batch into groups of at most `most` sequences, of like length. Pure.
LengthGroups group_by_length(const int64_t* lengths, int64_t count, int64_t most);

// Fresh encoder and layers as torch makes them (uniform within 1/sqrt(fan-in), LSTM within 1/sqrt(hidden)), but for the
// bias of the LSTM's forget gates, which starts at 1 so that gradients reach back over hundreds of rows (Jozefowicz et
// al. 2015).
class CnnLstm : public Network {
 public:
  explicit CnnLstm(const CnnLstmOptions&);

  // rows [B, T, F], floating point; lengths int64 [B], 1 to T, on the device of the rows. What the rows hold beyond a
  // sequence's length is of no account.
  at::Tensor classify(const at::Tensor& rows, const at::Tensor& lengths);  // logits [B, classes]
  at::Tensor rebuild(const at::Tensor& rows, const at::Tensor& lengths);   // [B, T, F], zero beyond the lengths

  // [B, T, F], all rows valid -> logits [B, classes].
  at::Tensor forward(at::Tensor rows) override;
  std::string head_prefix() const override { return "fc."; }

  // Stops (or lets again) the convolutions and the LSTM learn, batch statistics included.
  void freeze_encoder(bool frozen);
  static bool is_encoder(const std::string& parameter);

  void train(bool on = true) override;

 private:
  // Hidden states of the second layer of some sequences [T', b, hidden], from their convolved rows [b, 128, T'].
  at::Tensor recurrent(const at::Tensor& convolved, const at::Tensor& sample_ids);
  at::Tensor convolve(const at::Tensor& rows, const at::Tensor& lengths);  // [B, 128, T'], zero beyond
  // Calls `use(hidden states [T', b, hidden], group)` for each group of the batch, and puts the results together along
  // the first dimension in the order of the batch.
  template <typename Use>
  at::Tensor by_group(const at::Tensor& rows, const at::Tensor& lengths, Use use);

  CnnLstmOptions options_;
  torch::nn::Conv1d conv1_{nullptr}, conv2_{nullptr};
  layers::BatchNorm bn1_{nullptr}, bn2_{nullptr};
  std::shared_ptr<layers::LstmParameters> lstm_;
  torch::nn::Linear fc_{nullptr};
  torch::nn::ConvTranspose1d reconstruct_{nullptr};
  bool encoder_frozen_ = false;
};

}  // namespace dtrain::models

#pragma once

// The network of task `sequence`: two convolutions over time, two LSTM layers, the last valid
// hidden state and a linear layer; and a transposed convolution that reconstructs the rows from all
// hidden states. In Python:
//
//   conv1 = Conv1d(F, 64, 5, padding=2, bias=False); bn1 = BatchNorm1d(64)  # ReLU
//   conv2 = Conv1d(64, 128, 5, stride=2, padding=2, bias=False); bn2 = BatchNorm1d(128)  # ReLU
//   lstm = LSTM(128, hidden, num_layers=2, batch_first=True); fc = Linear(hidden, classes)
//   reconstruct = ConvTranspose1d(hidden, F, 4, stride=2, padding=1)
//
// with these names and shapes of parameters. Positions beyond a sequence's length are zero after
// each block, and batch norm uses valid positions only, so a sequence's output does not depend on
// its batch (in eval mode, except for rounding).
//
// Sequences of different lengths: on the CPU the LSTM runs over packed rows, without padding
// (layers/packed_steps.h). On a GPU, and in oneDNN's LSTM in bfloat16, the whole padded batch runs
// at once, because reading the lengths would make the host wait. Both give the result of a packed
// sequence, because the LSTM only looks back.

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "layers/batch_norm.h"
#include "layers/dropout.h"
#include "layers/lstm.h"
#include "models/network.h"

namespace dtrain::models {

struct CnnLstmOptions {
  int64_t features = 1;  // F, of a row
  int64_t classes = 2;
  int64_t hidden = 256;  // units of each LSTM layer
  // Dropout of the last hidden state; above 0, classify() in training mode needs a RandomScope
  double dropout = 0.3;
  double lstm_dropout = 0;  // between the LSTM layers; likewise
  uint64_t seed = 1;        // initial weights depend on (seed, parameter name)
};

// Initial weights are those of torch (uniform within 1 / sqrt(fan-in), LSTM within 1 /
// sqrt(hidden)), except that the bias of the LSTM's forget gates is 1, so that gradients reach back
// over hundreds of rows (Jozefowicz et al. 2015).
//
// Thread-safety: one forward pass at a time.
class CnnLstm : public Network {
 public:
  explicit CnnLstm(const CnnLstmOptions&);

  // rows [B, T, F], floating point; lengths int64 [B], 1 to T, on the device of the rows.
  // Logits [B, classes]; rows beyond a sequence's length are ignored.
  at::Tensor classify(const at::Tensor& rows, const at::Tensor& lengths);
  // [B, T, F], undefined beyond the lengths. There `rows` must be zero, as
  // layers::hide_and_noise() writes them: on a GPU, masks for both are seven launches.
  at::Tensor rebuild(const at::Tensor& rows, const at::Tensor& lengths);

  // [B, T, F], all rows valid -> logits [B, classes].
  at::Tensor forward(at::Tensor rows) override;
  std::string head_prefix() const override { return "fc."; }

  // Excludes the convolutions and the LSTM from training, with the running statistics, or includes
  // them again.
  void freeze_encoder(bool frozen);
  static bool is_encoder(const std::string& parameter);

  void train(bool on = true) override;

 private:
  // [B, 128, T'], zero beyond the lengths, as `rows` must be.
  // `halves`: the lengths after the second convolution
  at::Tensor convolve(const at::Tensor& rows, const at::Tensor& lengths, const at::Tensor& halves);
  struct Encoded {
    // Output of the second LSTM layer: packed [N, hidden], or [T', B, hidden], padding undefined
    at::Tensor states;
    at::Tensor packed_last = {};  // [B, hidden], the last valid one of each packed sequence
    std::optional<layers::PackedSteps> packed = {};
  };
  // [B, hidden], the last valid one of each sample
  static at::Tensor last_of(const Encoded&, const at::Tensor& halves);
  Encoded encode(const at::Tensor& rows, const at::Tensor& lengths, const at::Tensor& halves);
  Encoded encode_packed(const at::Tensor& rows, const at::Tensor& lengths,
                        const at::Tensor& halves);

  torch::nn::Conv1d conv1_{nullptr}, conv2_{nullptr};
  layers::BatchNorm bn1_{nullptr}, bn2_{nullptr};
  layers::KeyedDropout dropout_{nullptr}, lstm_dropout_{nullptr};
  std::shared_ptr<layers::LstmParameters> lstm_;
  torch::nn::Linear fc_{nullptr};
  torch::nn::ConvTranspose1d reconstruct_{nullptr};
  bool encoder_frozen_ = false;
};

}  // namespace dtrain::models

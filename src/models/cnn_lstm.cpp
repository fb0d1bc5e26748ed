#include "models/cnn_lstm.h"

#include <cmath>

#include "catalog/networks.h"
#include "layers/dropout.h"
#include "layers/lengths.h"
#include "models/initial_values.h"
#include "text/strings.h"

namespace dtrain::models {
namespace {

namespace nn = torch::nn;

constexpr catalog::SequenceLayers kNet = catalog::kCnnLstm;
static_assert(kNet.lstm.layers == 2);                  // encode() runs them one by one
constexpr int64_t kHeadDropout = 0, kLstmDropout = 1;  // numbers of the dropout layers

nn::Conv1d convolution(const catalog::Convolution& conv, int64_t in) {
  return nn::Conv1d(nn::Conv1dOptions(in, conv.out, conv.kernel)
                        .stride(conv.stride)
                        .padding(conv.padding())
                        .bias(false));
}

// Lengths after the second convolution.
static_assert(kNet.first.stride == 1 && kNet.second.stride == 2);
int64_t half(int64_t rows) { return (rows + 1) / 2; }
at::Tensor half(const at::Tensor& lengths) { return (lengths + 1).floor_divide(2); }

}  // namespace

CnnLstm::CnnLstm(const CnnLstmOptions& options) {
  const int64_t hidden = options.hidden;
  conv1_ = register_module("conv1", convolution(kNet.first, options.features));
  bn1_ = register_module("bn1", layers::BatchNorm(kNet.first.out));
  conv2_ = register_module("conv2", convolution(kNet.second, kNet.second.in));
  bn2_ = register_module("bn2", layers::BatchNorm(kNet.second.out));
  lstm_ = register_module(kNet.lstm.name, std::make_shared<layers::LstmParameters>(
                                              kNet.second.out, hidden, kNet.lstm.layers));
  dropout_ = register_module("dropout", layers::KeyedDropout(options.dropout, kHeadDropout));
  lstm_dropout_ =
      register_module("lstm_dropout", layers::KeyedDropout(options.lstm_dropout, kLstmDropout));
  fc_ = register_module("fc", nn::Linear(hidden, options.classes));
  reconstruct_ = register_module(
      "reconstruct",
      nn::ConvTranspose1d(
          nn::ConvTranspose1dOptions(hidden, options.features, 4).stride(2).padding(1)));

  const at::NoGradGuard no_grad;
  const auto uniform = [&](const at::Tensor& tensor, const std::string& name, int64_t fan_in) {
    const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
    tensor.uniform_(-bound, bound, keyed_generator(options.seed, name));
  };
  uniform(conv1_->weight, "conv1.weight", options.features * kNet.first.kernel);
  uniform(conv2_->weight, "conv2.weight", kNet.second.in * kNet.second.kernel);
  for (const auto& item : lstm_->named_parameters())
    uniform(item.value(), str(kNet.lstm.name, ".", item.key()), hidden);
  for (int64_t i = 0; i < kNet.lstm.layers; ++i) {  // the second quarter is that of the forget gate
    const layers::LstmLayer layer = lstm_->layer(i);
    layer.bias_ih.slice(0, hidden, 2 * hidden).fill_(1);
    layer.bias_hh.slice(0, hidden, 2 * hidden).zero_();
  }
  uniform(fc_->weight, "fc.weight", hidden);
  uniform(fc_->bias, "fc.bias", hidden);
  uniform(reconstruct_->weight, "reconstruct.weight", options.features * 4);
  uniform(reconstruct_->bias, "reconstruct.bias", options.features * 4);
}

at::Tensor CnnLstm::convolve(const at::Tensor& rows, const at::Tensor& lengths,
                             const at::Tensor& halves) {
  constexpr auto kReLU = layers::Activation::kReLU;
  const at::Tensor x = bn1_->forward_valid(conv1_->forward(rows.transpose(1, 2)), lengths, kReLU);
  return bn2_->forward_valid(conv2_->forward(x), halves, kReLU);
}

CnnLstm::Encoded CnnLstm::encode(const at::Tensor& rows, const at::Tensor& lengths,
                                 const at::Tensor& halves) {
  if (layers::runs_packed(rows)) return encode_packed(rows, lengths, halves);
  const at::Tensor first =
      layers::run_lstm(lstm_->layer(0), convolve(rows, lengths, halves).permute({2, 0, 1})).states;
  return {.states =
              layers::run_lstm(lstm_->layer(1), lstm_dropout_->forward_time_first(first)).states};
}

CnnLstm::Encoded CnnLstm::encode_packed(const at::Tensor& rows, const at::Tensor& lengths,
                                        const at::Tensor& halves) {
  const layers::PackedSteps steps =
      layers::pack_by_length(halves.const_data_ptr<int64_t>(), halves.numel());
  const at::Tensor order = steps.indices();
  const at::Tensor convolved = convolve(rows.index_select(0, order), lengths.index_select(0, order),
                                        halves.index_select(0, order));
  const at::Tensor zeros =
      at::zeros({rows.size(0), lstm_->layer(0).weight_hh.size(1)}, rows.options());
  const auto run = [&](int64_t layer, const at::Tensor& x) {
    return layers::run_packed_lstm(lstm_->layer(layer), x, steps, zeros, zeros);
  };
  const at::Tensor first = run(0, layers::pack(convolved.permute({2, 0, 1}), steps)).states;
  const layers::LstmResult second = run(1, lstm_dropout_->forward_packed(first, steps));
  return {.states = second.states, .packed_last = second.h, .packed = steps};
}

at::Tensor CnnLstm::last_of(const Encoded& encoded, const at::Tensor& halves) {
  if (encoded.packed) return encoded.packed_last.index_select(0, encoded.packed->inverse());
  const at::Tensor at = (halves - 1).view({1, -1, 1}).expand({1, -1, encoded.states.size(2)});
  return encoded.states.gather(0, at).squeeze(0);
}

at::Tensor CnnLstm::classify(const at::Tensor& rows, const at::Tensor& lengths) {
  const at::Tensor clean =
      rows.masked_fill(layers::padded_positions(lengths, rows.size(1)).unsqueeze(2), 0);
  const at::Tensor halves = half(lengths);
  return fc_->forward(dropout_->forward(last_of(encode(clean, lengths, halves), halves)));
}

at::Tensor CnnLstm::rebuild(const at::Tensor& rows, const at::Tensor& lengths) {
  const int64_t longest = rows.size(1), steps = half(longest);
  const at::Tensor halves = half(lengths);
  const Encoded encoded = encode(rows, lengths, halves);
  const auto clean = [&] {
    return encoded.states * layers::valid_positions(halves, steps).t().unsqueeze(2);
  };
  const at::Tensor states =
      encoded.packed ? layers::unpack(encoded.states, *encoded.packed, steps) : clean();
  at::Tensor rebuilt = reconstruct_->forward(states.permute({1, 2, 0})).transpose(1, 2);
  if (encoded.packed) rebuilt = rebuilt.index_select(0, encoded.packed->inverse());
  // Negative padding crops.
  return at::constant_pad_nd(rebuilt, {0, 0, 0, longest - rebuilt.size(1)});
}

at::Tensor CnnLstm::forward(at::Tensor rows) {
  return classify(rows, at::full({rows.size(0)}, rows.size(1),
                                 rows.options().dtype(at::kLong).requires_grad(false)));
}

bool CnnLstm::is_encoder(const std::string& parameter) {
  return !parameter.starts_with("fc.") && !parameter.starts_with("reconstruct.");
}

void CnnLstm::freeze_encoder(bool frozen) {
  encoder_frozen_ = frozen;
  for (auto& item : named_parameters()) {
    if (is_encoder(item.key())) item.value().set_requires_grad(!frozen);
  }
  train(is_training());
}

void CnnLstm::train(bool on) {
  Network::train(on);
  if (encoder_frozen_) {
    bn1_->train(false);
    bn2_->train(false);
  }
}

}  // namespace dtrain::models

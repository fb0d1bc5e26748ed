#pragma once

// torch's recurrent layers with five inputs and seven units, in all forms whose weights have
// different layouts.

#include <torch/nn/module.h>
#include <torch/nn/modules/rnn.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dtrain::testing {

struct RecurrentNetwork {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::vector<at::Tensor> weights;  // torch's all_weights()
  std::function<at::Tensor(const at::Tensor&)> output;
  int64_t kind = 0, per_layer = 0, projection = 0, layers = 1;
  bool bidirectional = false;
};

inline std::vector<RecurrentNetwork> recurrent_networks() {
  at::manual_seed(4);
  std::vector<RecurrentNetwork> all;
  const auto add = [&](const char* name, auto layer, int64_t kind, int64_t per_layer) {
    const auto& options = layer->options_base;
    all.push_back({name, layer.ptr(), layer->all_weights(),
                   [layer](const at::Tensor& x) mutable { return std::get<0>(layer->forward(x)); },
                   kind, per_layer, options.proj_size(), options.num_layers(),
                   options.bidirectional()});
  };
  add("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(5, 7).batch_first(true)), 2, 4);
  add("bidirectional lstm of three layers",
      torch::nn::LSTM(
          torch::nn::LSTMOptions(5, 7).num_layers(3).bidirectional(true).batch_first(true)),
      2, 4);
  add("projected lstm",
      torch::nn::LSTM(torch::nn::LSTMOptions(5, 7).num_layers(2).proj_size(3).batch_first(true)), 2,
      5);
  add("lstm without bias",
      torch::nn::LSTM(torch::nn::LSTMOptions(5, 7).bias(false).batch_first(true)), 2, 2);
  add("gru", torch::nn::GRU(torch::nn::GRUOptions(5, 7).num_layers(2).batch_first(true)), 3, 4);
  add("rnn", torch::nn::RNN(torch::nn::RNNOptions(5, 7).bidirectional(true).batch_first(true)), 1,
      4);
  return all;
}

}  // namespace dtrain::testing

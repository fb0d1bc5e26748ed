#pragma once

// The network of task `pointer`, which orders the elements of a set (Vinyals, Fortunato, Jaitly
// 2015). In Python:
//
//   encoder = LSTM(features, hidden, num_layers=2)            # keyed dropout between the layers
//   decoder = LSTM(features, hidden)                          # starts from the encoder's last
//                                                             valid (h, c)
//   attention.key, attention.query = Linear(hidden, hidden, bias=False); attention.v =
//     Linear(hidden, 1, bias=False)
//
// with these parameter names. The decoder's row at step t has the features of the element chosen at
// step t - 1, with the last feature, is_visited, set to 1; at step 0 it is zero. The score of
// element j at step t is v . tanh(key(encoder state j) + query(decoder state t)). Elements chosen
// before and positions beyond the length are masked.
//
// A sample's result does not depend on its batch: padding comes after the elements, the encoder
// only looks back, and its last state is that at length - 1 (layers/lstm.h).

#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "catalog/networks.h"
#include "layers/dropout.h"
#include "layers/lstm.h"
#include "models/network.h"
#include "text/strings.h"

namespace dtrain::models {

struct PointerNetworkOptions {
  int64_t features = 8;  // the last one is is_visited
  int64_t hidden = 256;
  // Between the encoder's layers; above 0, encode() in training mode needs a RandomScope
  double dropout = 0.2;
  uint64_t seed = 1;  // initial weights depend on (seed, parameter name)
};

// A batch of sets. The network never makes the host wait for the device.
struct Sets {
  // [B, T, features], floating point; must be finite, ignored beyond the lengths
  at::Tensor elements;
  at::Tensor lengths;  // int64 [B], 1 to T
  bool padded = true;  // false if all lengths are T: saves a little time
};

// Initial weights are those of torch, uniform within 1 / sqrt(hidden).
//
// Thread-safety: one forward pass at a time.
class PointerNetwork : public Network {
 public:
  explicit PointerNetwork(const PointerNetworkOptions&);

  // The encoded sets, time first.
  struct Memory {
    at::Tensor keys;  // [T, B, hidden], zero or undefined beyond the lengths
    at::Tensor h, c;  // [B, hidden]
    std::optional<layers::PackedSteps> packed;  // then the sets are in this order
  };
  Memory encode(const Sets&);

  // The negative log-likelihood of `order` (int64 [B, T], ignored beyond the lengths), summed over
  // each sample's steps: [B]. fed [B, T] are the elements that the decoder receives as its choices:
  // the order itself (teacher forcing) or the result of choose() (free running). The elements of
  // the order count as visited, so the correct element can always be chosen.
  at::Tensor losses(const Sets&, const Memory&, const at::Tensor& order, const at::Tensor& fed);

  // Greedy choices [B, T], each of which is the input of the next step; -1 beyond the lengths; no
  // gradient. The chosen elements count as visited, so the result is a permutation; with `order`,
  // the elements of the order do.
  at::Tensor choose(const Sets&, const Memory&, const at::Tensor& order = {});

  // [B, T, features], all of full length -> greedy order [B, T].
  at::Tensor forward(at::Tensor elements) override;
  std::string head_prefix() const override {
    return str(catalog::kPointerNetwork.attention.name, ".");
  }

 private:
  Memory encode_packed(const Sets&);
  static at::Tensor fed_rows(const at::Tensor& elements, const at::Tensor& fed);

  std::shared_ptr<layers::LstmParameters> encoder_, decoder_;
  layers::KeyedDropout dropout_{nullptr};
  torch::nn::Linear key_{nullptr}, query_{nullptr}, v_{nullptr};
};

}  // namespace dtrain::models

#pragma once

// The network of task `pointer`: from a set of elements to an order of them (Vinyals, Fortunato, Jaitly 2015). In
// Python:
//
//   encoder = LSTM(features, hidden, num_layers=2)            # keyed dropout between the layers
//   decoder = LSTM(features, hidden)                          # starts from the encoder's last valid (h, c)
//   attention.key, attention.query = Linear(hidden, hidden, bias=False); attention.v = Linear(hidden, 1, bias=False)
//
// with those names. The decoder's row at step t holds the features of the element that step t - 1 chose, with its last
// feature, is_visited, set to 1; at step 0 zeros. The score of element j at step t is v . tanh(key(encoder state j) +
// query(decoder state t)); what was chosen before and what lies beyond the length is masked.
//
// A sample's result does not depend on its batch: padding comes after the elements, the encoder only looks back, and
// its last state is the one at length - 1 (models/lstm.h).

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "layers/lstm.h"
#include "models/models.h"

namespace dtrain::models {

struct PointerNetworkOptions {
  int64_t features = 8;  // the last one is is_visited
  int64_t hidden = 256;
  double dropout = 0.2;  // between the encoder's layers; while training, a RandomScope is needed if above 0
  uint64_t seed = 1;     // initial weights are keyed by (seed, parameter name)
};

// A batch of sets. Nothing in the network waits for the device.
struct Sets {
  at::Tensor elements;  // [B, T, features], floating point; what lies beyond a length is of no account if finite
  at::Tensor lengths;   // int64 [B], 1 to T
  bool padded = true;   // false: all lengths are T, which saves a little
};

// Fresh weights as torch makes them, uniform within 1 / sqrt(hidden).
class PointerNetwork : public Network {
 public:
  explicit PointerNetwork(const PointerNetworkOptions&);

  // What the encoder knows of the sets, in the order of time.
  struct Memory {
    at::Tensor keys;  // [T, B, hidden]
    at::Tensor h, c;  // [B, hidden]
  };
  Memory encode(const Sets&);

  // Negative log-likelihood of `order` (int64 [B, T], of no account beyond the lengths), summed over each sample's
  // steps: [B]. `fed` [B, T] are the elements that the decoder is told it has chosen: the order itself (teacher
  // forcing) or choose() (free running). Visited are the elements of the order, so that what is right can always be
  // chosen.
  at::Tensor losses(const Sets&, const Memory&, const at::Tensor& order, const at::Tensor& fed);

  // Greedy choices [B, T], each fed to the next step, -1 beyond the lengths; no gradient. Visited is what was chosen
  // (the result is a permutation), or with `order` what the order names.
  at::Tensor choose(const Sets&, const Memory&, const at::Tensor& order = {});

  // [B, T, features], all of full length -> greedy order [B, T].
  at::Tensor forward(at::Tensor elements) override;
  std::string head_prefix() const override { return "attention."; }

 private:
  at::Tensor fed_rows(const at::Tensor& elements, const at::Tensor& fed) const;

  PointerNetworkOptions options_;
  std::shared_ptr<layers::LstmParameters> encoder_, decoder_;
  torch::nn::Linear key_{nullptr}, query_{nullptr}, v_{nullptr};
};

}  // namespace dtrain::models

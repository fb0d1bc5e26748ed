#pragma once

// Copies of a network's weights in the type in which a GPU computes, float16 or bfloat16. Autocast
// would cast each weight in each forward pass, and each of its gradients in each backward pass; so
// one launch makes all copies, and one the gradients of a bucket. The numbers are the same.
//
// Source: the working copies of mixed precision training (Micikevicius et al., 2018), with the
// layers and the optimizer unchanged.
//
// Thread-safety: none; the training thread owns it. Ownership: keeps handles of the parameters.

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace dtrain::train {

class NarrowWeights {
 public:
  // Copies the weights and biases of the module's convolutions and linear layers, which autocast
  // would cast to `type`. kFloat: none, and nothing below has an effect.
  NarrowWeights(torch::nn::Module&, at::ScalarType type);

  void refresh();         // the copies become equal to the weights
  int64_t bytes() const;  // device memory of the copies

  // For its lifetime the layers compute with the copies, and gradients reach the weights. Those
  // of weights of one bucket come together; `bucket_of`: its number, by the weight.
  class Scope {
   public:
    Scope(NarrowWeights&, const std::function<size_t(const at::Tensor&)>& bucket_of);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    NarrowWeights& weights_;
  };

 private:
  std::vector<at::Tensor*> places_;  // where the layers find their weights
  std::vector<at::Tensor> wide_, narrow_;
};

}  // namespace dtrain::train

#include "models/lstm.h"

#include <gtest/gtest.h>

#include "models/state.h"

namespace dtrain::models {
namespace {

struct Inputs {
  std::shared_ptr<LstmParameters> parameters;
  at::Tensor rows, h, c;

  std::vector<at::Tensor> all() const {
    const LstmLayer layer = parameters->layer(0);
    return {rows, h, c, layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh};
  }
};

Inputs make(at::ScalarType dtype) {
  torch::manual_seed(4);
  const auto parameters = std::make_shared<LstmParameters>(5, 8, 1);
  const Inputs inputs{parameters, at::randn({6, 3, 5}), at::randn({3, 8}), at::randn({3, 8})};
  for (const at::Tensor& tensor : inputs.all()) {
    tensor.set_requires_grad(false);
    if (tensor.dim() < 3) tensor.uniform_(-0.5, 0.5);
  }
  convert_floating_point(*parameters, dtype);
  return {parameters, inputs.rows.to(dtype), inputs.h.to(dtype), inputs.c.to(dtype)};
}

at::Tensor gradient(at::ScalarType dtype, size_t learns) {
  const Inputs inputs = make(dtype);
  const at::Tensor learned = inputs.all()[learns].set_requires_grad(true);
  const LstmResult result = run_lstm(inputs.parameters->layer(0), inputs.rows, inputs.h, inputs.c);
  (result.states.square().sum() + result.c.sum()).backward();
  return learned.grad();
}

// A frozen decoder passes the gradient on to the encoder's state; one may freeze all weights but a bias.
TEST(Lstm, WhateverAloneLearnsGetsItsGradient) {
  for (size_t learns = 0; learns < 7; ++learns) {
    const at::Tensor single = gradient(at::kFloat, learns), exact = gradient(at::kDouble, learns);
    EXPECT_TRUE(at::allclose(single.to(at::kDouble), exact, 1e-4, 1e-5)) << "input " << learns;
    EXPECT_GT(exact.abs().max().item<double>(), 1e-2);
  }
}

TEST(Lstm, ACellIsTheLayerOverOneRow) {
  const Inputs inputs = make(at::kDouble);
  const LstmLayer layer = inputs.parameters->layer(0);
  const LstmResult expected = run_lstm(layer, inputs.rows.slice(0, 0, 1), inputs.h, inputs.c);
  const auto [h, c] = run_lstm_cell(layer, inputs.rows.select(0, 0), inputs.h, inputs.c);
  EXPECT_TRUE(at::allclose(h, expected.h, 1e-12, 1e-14));
  EXPECT_TRUE(at::allclose(c, expected.c, 1e-12, 1e-14));
}

}  // namespace
}  // namespace dtrain::models

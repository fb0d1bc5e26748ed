#include "layers/lstm.h"

#include <gtest/gtest.h>

namespace dtrain::layers {
namespace {

struct Inputs {
  std::shared_ptr<LstmParameters> parameters;
  at::Tensor rows, h, c;

  std::vector<at::Tensor> all() const {
    const LstmLayer layer = parameters->layer(0);
    return {rows, h, c, layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh};
  }
};

void convert(torch::nn::Module& module, at::ScalarType dtype) {
  for (at::Tensor& tensor : module.parameters()) tensor.set_data(tensor.to(dtype));
}

Inputs make(at::ScalarType dtype) {
  at::manual_seed(4);
  const auto parameters = std::make_shared<LstmParameters>(5, 8, 1);
  const Inputs inputs{parameters, at::randn({6, 3, 5}), at::randn({3, 8}), at::randn({3, 8})};
  for (const at::Tensor& tensor : inputs.all()) {
    tensor.set_requires_grad(false);
    if (tensor.dim() < 3) tensor.uniform_(-0.5, 0.5);
  }
  convert(*parameters, dtype);
  return {parameters, inputs.rows.to(dtype), inputs.h.to(dtype), inputs.c.to(dtype)};
}

at::Tensor gradient(at::ScalarType dtype, size_t learns) {
  const Inputs inputs = make(dtype);
  const at::Tensor learned = inputs.all()[learns].set_requires_grad(true);
  const LstmResult result = run_lstm(inputs.parameters->layer(0), inputs.rows, inputs.h, inputs.c);
  (result.states.square().sum() + result.c.sum()).backward();
  return learned.grad();
}

// A frozen decoder passes the gradient on to the encoder's state, and all weights but a bias may be frozen.
TEST(Lstm, EachInputGetsItsGradientIfOnlyItRequiresOne) {
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

TEST(Lstm, KeepsTheStateOfEachLastRowThroughThePadding) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    at::manual_seed(3);
    LstmParameters parameters(6, 32, 1);
    const at::NoGradGuard no_grad;
    for (auto& p : parameters.parameters()) p.uniform_(-2, 2);
    convert(parameters, type);
    const at::Tensor rows = at::randn({9, 4, 6}).to(type), zeros = at::zeros({4, 32}, type);
    const at::Tensor lengths = at::tensor({9, 1, 4, 7}, at::kLong);
    const LstmResult all = run_padded_lstm(parameters.layer(0), rows, lengths, zeros, zeros);
    for (int64_t b = 0; b < 4; ++b) {
      const int64_t length = lengths[b].item<int64_t>();
      const at::Tensor none = zeros.slice(0, b, b + 1);
      const LstmResult alone = run_lstm(parameters.layer(0), rows.slice(0, 0, length).slice(1, b, b + 1), none, none);
      // Of bfloat16: eight times its step between 4 and 8, where the states are.
      const double tolerance = type == at::kDouble ? 1e-14 : type == at::kFloat ? 1e-5 : 0.25;
      EXPECT_LE((all.h[b] - alone.h[0]).abs().max().item<double>(), tolerance) << type << " h " << b;
      EXPECT_LE((all.c[b] - alone.c[0]).abs().max().item<double>(), tolerance) << type << " c " << b;
    }
  }
}

}  // namespace
}  // namespace dtrain::layers

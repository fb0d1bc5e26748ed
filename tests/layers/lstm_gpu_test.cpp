#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "layers/autocast.h"
#include "layers/lstm.h"

namespace dtrain::layers {
namespace {

LstmLayer layer_on_gpu() {
  at::manual_seed(2);
  const auto weight = [](at::IntArrayRef shape) {
    return (at::rand(shape) - 0.5).cuda().set_requires_grad(true);
  };
  return {weight({32, 6}), weight({32, 8}), weight({32}), weight({32})};
}

// LibTorch's default lets cuDNN's LSTM use TF32, and cuBLAS not: lstm_cell and lstm then differ in
// the fourth digit.
void allow_tf32(bool allowed) {
  at::globalContext().setAllowTF32CuBLAS(allowed);
  at::globalContext().setAllowTF32CuDNN(allowed);
}

// As a run in bf16 sets it.
TEST(LstmOnAGpu, UnderTf32TheCellIsNearTheSequence) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  allow_tf32(true);
  const LstmLayer layer = layer_on_gpu();
  const at::Tensor rows = at::randn({1, 3, 6}).cuda(), h = at::zeros({3, 8}).cuda(),
                   c = at::zeros({3, 8}).cuda();
  const auto [h_next, c_next] = run_lstm_cell(layer, rows[0], h, c);
  EXPECT_TRUE(at::allclose(h_next, run_lstm(layer, rows, h, c).states[0], 1e-3, 1e-3));
}

// In float16 a state of 1e5 would be infinite.
TEST(LstmOnAGpu, UnderBf16AutocastIsThatOfFloat32) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  allow_tf32(false);
  const LstmLayer layer = layer_on_gpu();
  const at::Tensor rows = at::randn({5, 3, 6}).cuda(), h = at::zeros({3, 8}).cuda(),
                   c = at::full({3, 8}, 1e5).cuda();
  const LstmResult expected = run_lstm(layer, rows, h, c);
  const AutocastGuard autocast({.device = at::kCUDA, .enabled = true, .dtype = at::kBFloat16});
  const LstmResult result = run_lstm(layer, rows, h, c);
  EXPECT_EQ(result.states.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(result.states, expected.states));
  EXPECT_TRUE(at::equal(result.c, expected.c));
  EXPECT_EQ(run_lstm(layer, rows.to(at::kBFloat16), h, c).states.scalar_type(), at::kFloat);
  // Decoding must compute the same network
  const auto [h_next, c_next] = run_lstm_cell(layer, rows[0], h, c);
  EXPECT_EQ(h_next.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(h_next, expected.states[0], 1e-5, 1e-6));
  EXPECT_EQ(c_next.scalar_type(), at::kFloat);
  EXPECT_TRUE(current_autocast(at::kCUDA).enabled);
}

TEST(LstmOnAGpu, HasTheWeightsOfALayerInOnePiece) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  allow_tf32(false);
  LstmParameters parameters(6, 8, 2);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& weight : parameters.parameters()) weight.uniform_(-0.5, 0.5);
  const at::Tensor rows = at::randn({5, 3, 6});
  const at::Tensor expected = run_lstm(parameters.layer(0), rows).states;
  parameters.to(at::kCUDA);
  for (int64_t i = 0; i < 2; ++i) {
    const LstmLayer layer = parameters.layer(i);
    for (const at::Tensor& weight : {layer.weight_hh, layer.bias_ih, layer.bias_hh})
      EXPECT_TRUE(weight.is_alias_of(layer.weight_ih));
  }
  EXPECT_TRUE(
      at::allclose(run_lstm(parameters.layer(0), rows.cuda()).states.cpu(), expected, 1e-5, 1e-6));
}

TEST(LstmOnAGpu, PassesTheGradientOnToItsInitialStateWhenFrozen) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const LstmLayer layer = layer_on_gpu();
  for (const at::Tensor& weight :
       {layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh}) {
    weight.set_requires_grad(false);
  }
  const at::Tensor h = at::zeros({3, 8}).cuda().set_requires_grad(true);
  run_lstm(layer, at::randn({5, 3, 6}).cuda(), h, at::zeros({3, 8}).cuda()).states.sum().backward();
  EXPECT_GT(h.grad().abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace dtrain::layers

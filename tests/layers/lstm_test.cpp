#include "layers/lstm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cmath>
#include <limits>

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

// A frozen decoder passes the gradient on to the encoder's state, and all weights but a bias may
// be frozen.
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
      const LstmResult alone =
          run_lstm(parameters.layer(0), rows.slice(0, 0, length).slice(1, b, b + 1), none, none);
      // Of bfloat16: eight times its step between 4 and 8, where the states are.
      const double tolerance = type == at::kDouble ? 1e-14 : type == at::kFloat ? 1e-5 : 0.25;
      EXPECT_LE((all.h[b] - alone.h[0]).abs().max().item<double>(), tolerance)
          << type << " h " << b;
      EXPECT_LE((all.c[b] - alone.c[0]).abs().max().item<double>(), tolerance)
          << type << " c " << b;
    }
  }
}

// ---- packed rows on the CPU, compared with LibTorch's LSTM in float64 ---------------------------

struct Packed {
  std::vector<at::Tensor> inputs;  // rows, h, c and the four weights
  PackedSteps steps;

  LstmLayer layer() const { return {inputs[3], inputs[4], inputs[5], inputs[6]}; }
  LstmResult run() const {
    return run_packed_lstm(layer(), inputs[0], steps, inputs[1], inputs[2]);
  }
  LstmResult expected() const {
    const auto [states, h, c] =
        at::lstm(inputs[0], at::tensor(steps.counts, at::kLong),
                 {inputs[1].unsqueeze(0), inputs[2].unsqueeze(0)},
                 {inputs[3], inputs[4], inputs[5], inputs[6]}, /*has_biases=*/true,
                 /*num_layers=*/1, /*dropout=*/0, /*train=*/true, /*bidirectional=*/false);
    return {states, h.squeeze(0), c.squeeze(0)};
  }
};

Packed make_packed(const std::vector<int64_t>& lengths, int64_t inputs, int64_t hidden,
                   at::ScalarType type, double scale = 1) {
  at::manual_seed(6);
  const auto samples = static_cast<int64_t>(lengths.size());
  Packed made{{}, pack_by_length(lengths.data(), samples)};
  const double bound = scale / std::sqrt(static_cast<double>(hidden));
  made.inputs = {at::randn({made.steps.rows(), inputs}), at::randn({samples, hidden}),
                 at::randn({samples, hidden})};
  const std::vector<std::vector<int64_t>> shapes = {
      {4 * hidden, inputs}, {4 * hidden, hidden}, {4 * hidden}, {4 * hidden}};
  for (const auto& shape : shapes) {
    made.inputs.push_back(at::empty(shape).uniform_(-bound, bound));
  }
  for (at::Tensor& input : made.inputs) input = input.to(type).set_requires_grad(true);
  return made;
}

// {states, h, c, and the gradients of all inputs}, in float64.
std::vector<at::Tensor> all_of(const Packed& packed, const LstmResult& result) {
  at::manual_seed(7);
  at::Tensor loss;
  for (const at::Tensor& part : {result.states, result.h, result.c}) {
    const at::Tensor term = (part * at::randn(part.sizes()).to(part.scalar_type())).sum();
    loss = loss.defined() ? loss + term : term;
  }
  std::vector<at::Tensor> all = {result.states, result.h, result.c};
  for (const at::Tensor& gradient : torch::autograd::grad({loss}, packed.inputs))
    all.push_back(gradient);
  for (at::Tensor& each : all) each = each.detach().to(at::kDouble);
  return all;
}

const std::vector<std::vector<int64_t>> kLengths = {
    {1}, {5, 5, 5}, {9, 1, 4, 7, 1, 2, 9, 8}, {3, 30}};

double worst(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, ((a[i] - b[i]).abs().max() / b[i].abs().max()).item<double>());
  }
  return most;
}

// Fewer and more units than a panel has, and whole panels.
TEST(PackedLstm, EqualsLibTorchsInFloat64) {
  for (const auto& lengths : kLengths) {
    for (const int64_t hidden : {1, 8, 19, 32, 64, 70}) {
      const Packed wide = make_packed(lengths, 5, hidden, at::kDouble);
      const std::vector<at::Tensor> expected = all_of(wide, wide.expected());
      EXPECT_LE(worst(all_of(wide, wide.run()), expected), 1e-12) << hidden;
      Packed packed = wide;
      for (at::Tensor& input : packed.inputs)
        input = input.detach().to(at::kFloat).set_requires_grad(true);
      EXPECT_LE(worst(all_of(packed, packed.run()), expected), 3e-6) << hidden;
    }
  }
}

TEST(PackedLstm, IsAsExactAsFloat32Is) {
  for (const double scale : {1.0, 30.0}) {  // with 30 most gates are saturated
    const Packed packed = make_packed(kLengths[2], 6, 43, at::kFloat, scale);
    const Packed wide = make_packed(kLengths[2], 6, 43, at::kDouble, scale);
    Packed same = wide;
    for (size_t i = 0; i < wide.inputs.size(); ++i) {
      same.inputs[i] = packed.inputs[i].detach().to(at::kDouble).set_requires_grad(true);
    }
    const double error = worst(all_of(packed, packed.run()), all_of(same, same.expected()));
    EXPECT_LE(error, scale == 1 ? 3e-6 : 2e-3) << "scale " << scale;
  }
}

TEST(PackedLstm, HasTheSameBitsForAnyNumberOfThreads) {
  const Packed packed = make_packed({40, 33, 12, 40}, 20, 512, at::kFloat);
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  const std::vector<at::Tensor> all = all_of(packed, packed.run());
  at::set_num_threads(1);
  const std::vector<at::Tensor> one = all_of(packed, packed.run());
  at::set_num_threads(before);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(at::equal(all[i], one[i])) << i;
}

TEST(PackedLstm, PassesNotANumberOn) {
  const Packed packed = make_packed({3, 2}, 2, 16, at::kFloat);
  const at::NoGradGuard no_grad;
  packed.inputs[0][0][0] = std::numeric_limits<float>::quiet_NaN();
  const LstmResult result = packed.run();
  EXPECT_TRUE(result.states[0].isnan().all().item<bool>());
  EXPECT_FALSE(result.states[1].isnan().any().item<bool>());
}

TEST(PackedLstm, ComputesBfloat16InFloat32) {
  const Packed packed = make_packed({6, 3}, 4, 32, at::kFloat);
  const at::NoGradGuard no_grad;
  Packed half = packed;
  for (at::Tensor& input : half.inputs) input = input.to(at::kBFloat16);
  Packed rounded = half;
  for (at::Tensor& input : rounded.inputs) input = input.to(at::kFloat);
  EXPECT_TRUE(at::equal(half.run().states, rounded.run().states.to(at::kBFloat16)));
}

}  // namespace
}  // namespace dtrain::layers

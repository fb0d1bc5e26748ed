// Batch norm with what follows it in one pass, compared with torch's layers one after the other:
// outputs, all gradients and running statistics, for each class of shapes.

#include "layers/epilogue.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include <cmath>
#include <limits>

#include "device/tensor_memory.h"
#include "layers/batch_norm.h"
#include "text/strings.h"

namespace dtrain::layers {
namespace {

namespace nn = torch::nn;

struct Shape {
  std::vector<int64_t> sizes;
  bool channels_last;
};

// Channels that fill vectors, that do not, more than a period has, and one; odd heights and widths;
// a single position; enough elements for several parts.
std::vector<Shape> shapes() {
  return {{{2, 16, 8, 8}, true},   {{3, 24, 7, 5}, true},  {{2, 3, 9, 6}, true},
          {{2, 96, 4, 4}, true},   {{2, 100, 3, 3}, true}, {{4, 5, 6, 6}, false},
          {{2, 16, 7, 9}, false},  {{5, 7, 2, 2}, true},   {{9, 40, 1, 1}, true},
          {{4, 1, 6, 6}, true},    {{2, 32, 1, 8}, true},  {{2, 32, 64, 64}, true},
          {{3, 200, 2, 3}, false}, {{2, 8, 3, 2}, true},   {{1, 48, 40, 70}, true}};
}

std::vector<Epilogue> epilogues() {
  std::vector<Epilogue> all;
  for (const Activation activation : {Activation::kNone, Activation::kReLU, Activation::kReLU6}) {
    for (const bool pool : {false, true})
      all.push_back({.activation = activation, .residual = {}, .max_pool = pool});
  }
  return all;
}

at::Tensor random(const Shape& shape, uint64_t seed, at::ScalarType dtype) {
  at::manual_seed(seed);
  const at::Tensor x = at::randn(shape.sizes, at::kDouble) * 3 + 0.7;
  return x.to(dtype).contiguous(shape.channels_last ? at::MemoryFormat::ChannelsLast
                                                    : at::MemoryFormat::Contiguous);
}

template <typename Norm>
void fill(Norm& norm, at::ScalarType dtype) {
  const at::NoGradGuard no_grad;
  norm.to(dtype);
  norm.num_batches_tracked.set_data(at::full({}, 3, at::kLong));
  const int64_t channels = norm.weight.size(0);
  norm.weight.copy_(at::linspace(-0.5, 1.5, channels));
  norm.bias.copy_(at::linspace(-0.3, 0.9, channels));
  norm.running_mean.copy_(at::linspace(-1, 2, channels));
  norm.running_var.copy_(at::linspace(0.5, 3, channels));
}

struct Result {
  at::Tensor y, x_gradient, residual_gradient, weight_gradient, bias_gradient, running_mean,
      running_var;
};

// forward(norm, x, residual), then backward from a fixed gradient.
template <typename Norm, typename Forward>
Result run(Norm& norm, const at::Tensor& given, const at::Tensor& given_residual,
           const Forward& forward) {
  const at::Tensor x = given.clone().set_requires_grad(true);
  at::Tensor residual;
  if (given_residual.defined()) residual = given_residual.clone().set_requires_grad(true);
  const at::Tensor y = forward(x, residual);
  at::manual_seed(7);
  y.backward(at::randn_like(y.to(at::kDouble)).to(y.scalar_type()));
  return {y.detach(),
          x.grad(),
          residual.defined() ? residual.grad() : at::Tensor(),
          norm.weight.grad(),
          norm.bias.grad(),
          norm.running_mean.clone(),
          norm.running_var.clone()};
}

Result fused(const at::Tensor& x, const at::Tensor& residual, Epilogue epilogue, bool training) {
  BatchNorm norm(x.size(1));
  fill(*norm, x.scalar_type() == at::kBFloat16 ? at::kFloat : x.scalar_type());
  norm->train(training);
  return run(*norm, x, residual, [&](const at::Tensor& input, const at::Tensor& added) {
    epilogue.residual = added;
    return norm->forward_with(input, epilogue);
  });
}

Result separate(const at::Tensor& x, const at::Tensor& residual, const Epilogue& epilogue,
                bool training) {
  nn::BatchNorm2d norm(x.size(1));
  fill(*norm, x.scalar_type());
  norm->train(training);
  return run(*norm, x, residual, [&](const at::Tensor& input, const at::Tensor& added) {
    at::Tensor y = norm->forward(input);
    if (added.defined()) y = y + added;
    if (epilogue.activation == Activation::kReLU) y = at::relu(y);
    if (epilogue.activation == Activation::kReLU6) y = at::relu6(y);
    return epilogue.max_pool ? at::max_pool2d(y, 2) : y;
  });
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined())
    return a.defined() == b.defined() ? 0 : std::numeric_limits<double>::infinity();
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (a.numel() == 0) return 0;
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  return (x - y).abs().max().item<double>() / std::max(1e-3, y.abs().max().item<double>());
}

double worst(const Result& a, const Result& b) {
  double most = 0;
  for (const auto member :
       {&Result::y, &Result::x_gradient, &Result::residual_gradient, &Result::weight_gradient,
        &Result::bias_gradient, &Result::running_mean, &Result::running_var}) {
    most = std::max(most, worst(a.*member, b.*member));
  }
  return most;
}

bool has_output(const Shape& shape, const Epilogue& epilogue) {
  return !epilogue.max_pool || (shape.sizes[2] >= 2 && shape.sizes[3] >= 2);
}

// Calls body(x, residual or undefined, epilogue, training, text) for all that is compared.
template <typename Body>
void for_each_case(at::ScalarType dtype, const Body& body) {
  for (const Shape& shape : shapes()) {
    const at::Tensor x = random(shape, 1, dtype), residual = random(shape, 2, dtype);
    for (const Epilogue& epilogue : epilogues()) {
      if (!has_output(shape, epilogue)) continue;
      for (const bool add : {false, true}) {
        for (const bool training : {true, false}) {
          body(x, add ? residual : at::Tensor(), epilogue, training,
               dtrain::str(x.sizes(), shape.channels_last ? " channels_last" : "", ", activation ",
                           static_cast<int>(epilogue.activation),
                           epilogue.max_pool ? ", pooled" : "", add ? ", added" : "",
                           training ? "" : ", running statistics"));
        }
      }
    }
  }
}

TEST(FusedBatchNorm, EqualsTheSeparateLayersInFloat64) {
  for_each_case(at::kDouble, [](const at::Tensor& x, const at::Tensor& residual,
                                const Epilogue& epilogue, bool training, const std::string& what) {
    EXPECT_LE(
        worst(fused(x, residual, epilogue, training), separate(x, residual, epilogue, training)),
        1e-12)
        << what;
  });
}

// Compared with float64, so that the error is that of one side. The sums of a channel with weight 0
// are left to the other test: here its gradient could be of another of four equal values.
TEST(FusedBatchNorm, IsAsExactAsFloat32Is) {
  for_each_case(at::kFloat, [&](const at::Tensor& x, const at::Tensor& residual,
                                const Epilogue& epilogue, bool training, const std::string& what) {
    const at::Tensor wide = residual.defined() ? residual.to(at::kDouble) : residual;
    EXPECT_LE(worst(fused(x, residual, epilogue, training),
                    separate(x.to(at::kDouble), wide, epilogue, training)),
              1e-5)
        << what;
  });
}

TEST(FusedBatchNorm, RoundsBfloat16OnceInTheOutput) {
  const Shape shape = {{2, 24, 6, 6}, true};
  const at::Tensor x = random(shape, 1, at::kBFloat16);
  const Epilogue relu = {.activation = Activation::kReLU};
  const Result half = fused(x, {}, relu, true), wide = separate(x.to(at::kDouble), {}, relu, true);
  EXPECT_EQ(half.y.scalar_type(), at::kBFloat16);
  EXPECT_LE(((half.y.to(at::kDouble) - wide.y).abs() - wide.y.abs() * 0x1p-8).max().item<double>(),
            1e-6);
  EXPECT_LE(worst(half.x_gradient, wide.x_gradient), 0x1p-6);
  EXPECT_LE(worst(half.running_var, wide.running_var), 1e-6);
}

TEST(FusedBatchNorm, HasTheSameBitsWithAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  for_each_case(at::kFloat, [](const at::Tensor& x, const at::Tensor& residual,
                               const Epilogue& epilogue, bool training, const std::string& what) {
    at::set_num_threads(1);
    const Result one = fused(x, residual, epilogue, training);
    at::set_num_threads(3);
    EXPECT_EQ(worst(fused(x, residual, epilogue, training), one), 0) << what;
  });
  at::set_num_threads(threads);
}

// A run whose loss is not finite must not look healthy because ReLU hides it.
TEST(FusedBatchNorm, LetsNaNThrough) {
  at::Tensor x = random({{2, 16, 4, 4}, true}, 1, at::kFloat);
  x[1][3][2][1] = std::nanf("");
  for (const Epilogue& epilogue : epilogues()) {
    const at::Tensor y = fused(x, {}, epilogue, /*training=*/false).y;
    EXPECT_EQ(y.isnan().sum().item<int64_t>(), 1);
    EXPECT_TRUE(fused(x, {}, epilogue, true).y.select(1, 3).isnan().all().item<bool>());
  }
}

// Beside its input and its output it keeps where a maximum was and statistics. The layers keep what
// is between them.
TEST(FusedBatchNorm, KeepsLessForBackward) {
  const at::Tensor x = random({{2, 16, 32, 32}, true}, 1, at::kFloat).set_requires_grad(true);
  const auto held = [](const auto& forward) {
    const device::TensorMemory memory;
    const at::Tensor y = forward();
    return memory.held() - static_cast<int64_t>(y.nbytes());
  };
  for (const bool pool : {false, true}) {
    BatchNorm norm(16);
    nn::BatchNorm2d plain(16);
    const Epilogue epilogue = {.activation = Activation::kReLU, .residual = {}, .max_pool = pool};
    const at::Tensor y = norm->forward_with(x, epilogue);
    EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
    const int64_t most = (pool ? y.numel() : 0) + 1024;
    EXPECT_LE(held([&] { return norm->forward_with(x, epilogue); }), most);
    if (!pool) continue;
    const int64_t of_layers = held([&] { return at::max_pool2d(at::relu(plain->forward(x)), 2); });
    EXPECT_GE(of_layers, static_cast<int64_t>(x.nbytes()))
        << "ReLU keeps its output, and the pool int64 places";
  }
}

TEST(MaxPool, EqualsTheSeparateLayers) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const Shape& shape : shapes()) {
      if (shape.sizes[2] < 2 || shape.sizes[3] < 2) continue;
      for (const Activation activation :
           {Activation::kNone, Activation::kReLU, Activation::kReLU6}) {
        const at::Tensor x = random(shape, 3, dtype).set_requires_grad(true);
        const at::Tensor other = x.detach().clone().set_requires_grad(true);
        const at::Tensor y = max_pool(x.clone(), activation);
        const at::Tensor active = activation == Activation::kReLU    ? at::relu(other)
                                  : activation == Activation::kReLU6 ? at::relu6(other)
                                                                     : other;
        const at::Tensor expected = at::max_pool2d(active, 2);
        EXPECT_TRUE(at::equal(y, expected)) << x.sizes();
        const at::Tensor gradient = at::arange(y.numel(), at::kDouble).view(y.sizes()).to(dtype);
        y.backward(gradient);
        expected.backward(gradient);
        EXPECT_TRUE(at::equal(x.grad(), other.grad()))
            << x.sizes() << ", activation " << static_cast<int>(activation);
      }
    }
  }
}

}  // namespace
}  // namespace dtrain::layers

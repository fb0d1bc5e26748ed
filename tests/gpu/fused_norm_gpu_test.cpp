// The GPU's kernels of batch norm with what follows it, against LibTorch's operators on the GPU,
// and against the CPU's loops in float64 for each type, class of shapes and epilogue. With
// DTRAIN_TEST_DEVICE=cpu the same kernels run on the CPU, block by block.

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "gpu/gpu_pair.h"
#include "layers/batch_norm.h"
#include "layers/batch_norm_check.h"
#include "layers/norm_kernels.h"
#include "support/blocks_on_cpu.h"
#include "text/strings.h"

namespace dtrain::layers {
namespace {

using testing::difference;
using testing::gpu;

class FusedNormOnAGpu : public testing::GpuTest {
 protected:
  void SetUp() override {
    testing::GpuTest::SetUp();
    use_norm_kernels(own_kernels());
  }
  void TearDown() override { use_norm_kernels(NormKernels{}); }

  // Those of the GPU; on the CPU block by block.
  static NormKernels own_kernels() {
    return gpu().is_cpu() ? NormKernels{.runner = testing::kOnCpu, .device = at::kCPU}
                          : NormKernels{};
  }
};

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kHalf, at::kBFloat16};

struct Shape {
  std::vector<int64_t> sizes;
  bool channels_last;
};

// Channels that are whole groups of 16 bytes and that are not, of one and of several tiles; odd
// images; a single position; vectors; more rows than a part has; sequences.
std::vector<Shape> shapes() {
  return {{{4, 16, 40, 26}, true},  {{3, 10, 7, 9}, true},   {{3, 72, 19, 17}, true},
          {{2, 520, 5, 4}, true},   {{5, 6, 8, 16}, false},  {{5, 6, 7, 9}, false},
          {{33, 24, 1, 1}, true},   {{64, 20}, false},       {{6, 12, 33}, false},
          {{2, 32, 130, 90}, true}, {{2, 3, 64, 300}, false}};
}

struct Result {
  at::Tensor y, x_gradient, residual_gradient, weight_gradient, bias_gradient, running_mean,
      running_var;
  std::vector<at::Tensor> all() const {
    return {y,          x_gradient, residual_gradient, weight_gradient, bias_gradient, running_mean,
            running_var};
  }
};

struct Input {
  at::Tensor x, residual;
  Epilogue epilogue;
  bool training = true;
};

// One step of a layer with parameters of `number`, on the device of x.
Result step(const Input& input, at::ScalarType number) {
  const int64_t channels = input.x.size(1);
  const auto options = input.x.options().dtype(number);
  BatchNorm norm(channels);
  norm->to(input.x.device(), number);
  norm->num_batches_tracked.set_data(at::full({}, 3, options.dtype(at::kLong)));
  {
    const at::NoGradGuard no_grad;
    norm->weight.copy_(at::linspace(-0.5, 1.5, channels));
    norm->bias.copy_(at::linspace(-0.3, 0.9, channels));
    norm->running_mean.copy_(at::linspace(-1, 2, channels));
    norm->running_var.copy_(at::linspace(0.5, 3, channels));
  }
  norm->train(input.training);
  const at::Tensor x = input.x.detach().clone().requires_grad_();
  Epilogue epilogue = input.epilogue;
  if (input.residual.defined())
    epilogue.residual = input.residual.detach().clone().requires_grad_();
  const at::Tensor y = norm->forward_with(x, epilogue);
  at::manual_seed(7);
  // Values that each type has.
  y.backward(at::randn(y.sizes()).to(at::kBFloat16).to(y.device(), y.scalar_type()));
  return {y.detach(),
          x.grad(),
          epilogue.residual.defined() ? epilogue.residual.grad() : at::Tensor(),
          norm->weight.grad(),
          norm->bias.grad(),
          norm->running_mean.clone(),
          norm->running_var.clone()};
}

at::Tensor random(const Shape& shape, uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor x = (at::randn(shape.sizes) * 3 + 0.7).to(at::kBFloat16).to(at::kFloat);
  return x.contiguous(shape.channels_last ? at::MemoryFormat::ChannelsLast
                                          : at::MemoryFormat::Contiguous);
}

// Calls body(input in float32 on the CPU, text).
template <typename Body>
void for_each_input(const Body& body) {
  for (const Shape& shape : shapes()) {
    for (const Activation activation : {Activation::kNone, Activation::kReLU, Activation::kReLU6}) {
      for (const bool pool : {false, true}) {
        if (pool && (shape.sizes.size() < 4 || shape.sizes[2] < 2)) continue;
        for (const bool add : {false, true}) {
          for (const bool training : {true, false}) {
            const at::Tensor residual = add ? random(shape, 2) : at::Tensor();
            body(Input{random(shape, 1),
                       residual,
                       {.activation = activation, .max_pool = pool},
                       training},
                 dtrain::str(at::IntArrayRef(shape.sizes),
                             shape.channels_last ? " channels last" : "", ", activation ",
                             static_cast<int>(activation), pool ? ", pooled" : "",
                             add ? ", added" : "", training ? "" : ", running statistics"));
          }
        }
      }
    }
  }
}

Input on(const Input& input, at::Device device, at::ScalarType dtype) {
  Input moved = input;
  moved.x = input.x.to(device, dtype);
  if (input.residual.defined()) moved.residual = input.residual.to(device, dtype);
  return moved;
}

// Half precision is compared where an output is rounded once, at the end. Otherwise rounding
// decides which of four values is the largest, and what is below 6, and so where the gradient goes.
bool is_comparable(const Input& input, at::ScalarType dtype) {
  if (dtype == at::kFloat) return true;
  const bool one_pass = !input.residual.defined() && !input.x.is_contiguous();
  return (!input.epilogue.max_pool || one_pass) &&
         !(input.residual.defined() && input.epilogue.activation == Activation::kReLU6);
}

double bound(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-5 : dtype == at::kHalf ? 4e-3 : 3e-2;
}

TEST_F(FusedNormOnAGpu, PassesItsOwnComparison) {
  for (const at::ScalarType dtype : kTypes) {
    EXPECT_EQ(batch_norm::disagreement(own_kernels().runner, gpu(), dtype).value_or("nothing"),
              "nothing")
        << c10::toString(dtype);
    EXPECT_NE(norm_runner(at::ones({2, 2}, at::TensorOptions(gpu()).dtype(dtype))), nullptr);
  }
}

TEST_F(FusedNormOnAGpu, IsWhatTheCpuComputesInFloat64) {
  for_each_input([](const Input& input, const std::string& what) {
    use_norm_kernels(std::nullopt);
    const std::vector<at::Tensor> expected =
        step(on(input, at::kCPU, at::kDouble), at::kDouble).all();
    use_norm_kernels(own_kernels());
    for (const at::ScalarType dtype : kTypes) {
      if (!is_comparable(input, dtype)) continue;
      const std::vector<at::Tensor> found = step(on(input, gpu(), dtype), at::kFloat).all();
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(found[i].defined(), expected[i].defined()) << what;
        if (!expected[i].defined()) continue;
        EXPECT_LE(difference(found[i], expected[i]), bound(dtype))
            << c10::toString(dtype) << ", " << i << ", " << what;
      }
    }
  });
}

TEST_F(FusedNormOnAGpu, GivesTheSameBitsEachTime) {
  const Input input = {
      random({{8, 64, 56, 56}, true}, 1), {}, {.activation = Activation::kReLU}, true};
  const Input here = on(input, gpu(), at::kFloat);
  const std::vector<at::Tensor> first = step(here, at::kFloat).all();
  for (int time = 0; time < 5; ++time) {
    const std::vector<at::Tensor> again = step(here, at::kFloat).all();
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(!first[i].defined() || at::equal(first[i], again[i])) << i;
    }
  }
}

TEST_F(FusedNormOnAGpu, RunsOnTheCurrentStream) {
  if (gpu().is_cpu()) return;
  const Input input = {
      random({{8, 64, 56, 56}, true}, 1), {}, {.activation = Activation::kReLU}, true};
  const Input here = on(input, gpu(), at::kFloat);
  const at::Tensor expected = step(here, at::kFloat).y;
  const c10::impl::VirtualGuardImpl device(at::kCUDA);
  const c10::Stream other = device.getStreamFromGlobalPool(gpu());
  const at::Tensor square = at::ones({4096, 4096}, here.x.options());
  torch::cuda::synchronize();
  const c10::StreamGuard guard(other);
  at::Tensor x = here.x;
  for (int i = 0; i < 30; ++i)
    x = x + 0 * at::mm(square, square).sum();  // what the kernels have to wait for
  EXPECT_TRUE(at::equal(step({x, {}, input.epilogue, true}, at::kFloat).y, expected));
}

// Padded sequences, whose invalid positions hold what must not matter.
TEST_F(FusedNormOnAGpu, CountsTheValidPositionsOfSequences) {
  at::manual_seed(9);
  const at::Tensor x = at::randn({7, 12, 300}) * 2 + 5,
                   lengths = at::tensor({300, 0, 1, 299, 77, 400, 12}, at::kLong);
  const auto run = [&](const at::Tensor& input, at::ScalarType number) {
    BatchNorm norm(12);
    norm->to(input.device(), number);
    norm->num_batches_tracked.set_data(norm->num_batches_tracked.to(at::kLong));
    const at::Tensor leaf = input.detach().clone().requires_grad_();
    const at::Tensor y = norm->forward_valid(leaf, lengths.to(input.device()), Activation::kReLU);
    (y * y.detach()).sum().backward();
    return Result{y.detach(),         leaf.grad(),      {}, norm->weight.grad(), norm->bias.grad(),
                  norm->running_mean, norm->running_var};
  };
  use_norm_kernels(std::nullopt);
  const std::vector<at::Tensor> expected = run(x.to(at::kDouble), at::kDouble).all();
  use_norm_kernels(own_kernels());
  at::Tensor padded = x.clone();
  padded[1].fill_(INFINITY);
  padded[2].slice(1, 1).fill_(NAN);
  const std::vector<at::Tensor> found = run(padded.to(gpu()), at::kFloat).all();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].defined()) {
      EXPECT_LE(difference(found[i], expected[i]), 1e-5) << i;
    }
  }
}

}  // namespace
}  // namespace dtrain::layers

// The arithmetic of batch norm with shared statistics, and recomputed activations, on a GPU as on
// the CPU.

#include "gpu/gpu_pair.h"
#include "layers/autocast.h"
#include "layers/batch_norm_arithmetic.h"
#include "layers/dropout.h"
#include "layers/norm_kernels.h"
#include "models/image_networks.h"

namespace dtrain::layers {
namespace {

using testing::bound;
using testing::difference;
using testing::gpu;

// With dtrain's own kernels, and with LibTorch's operators.
class BatchNormOnAGpu : public testing::GpuTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    testing::GpuTest::SetUp();
    use_norm_kernels(GetParam() ? std::optional(NormKernels{}) : std::nullopt);
  }
  void TearDown() override { use_norm_kernels(NormKernels{}); }
};

struct Shape {
  const char* name;
  std::vector<int64_t> sizes;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  bool lengths = false;
};

const Shape kShapes[] = {
    {"NCHW", {7, 12, 9, 5}},
    {"NHWC", {7, 12, 9, 5}, at::MemoryFormat::ChannelsLast},
    {"[B, C]", {33, 12}},
    {"[B, C, T]", {6, 12, 17}},
    {"[B, C, T] with lengths", {6, 12, 17}, at::MemoryFormat::Contiguous, true}};

TEST_P(BatchNormOnAGpu, IsThatOfTheCpuInEachTypeAndLayout) {
  for (const Shape& shape : kShapes) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kHalf}) {
      if (dtype == at::kHalf && gpu().is_cpu()) continue;  // the CPU's body takes no half precision
      SCOPED_TRACE(std::string(shape.name) + ", " + c10::toString(dtype));
      at::manual_seed(3);
      const at::ScalarType wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
      // What the CPU computes with has been rounded to the GPU's type.
      const auto made = [&](double shift) {
        return (at::randn(shape.sizes, at::kDouble) * 2 + shift)
            .to(dtype)
            .to(wide)
            .contiguous(shape.format);
      };
      const at::Tensor x = made(0.7), dy = made(0);
      const int64_t channels = shape.sizes[1];
      const at::Tensor weight = at::linspace(0.5, 1.5, channels, wide),
                       bias = at::linspace(-0.3, 0.4, channels, wide);
      const at::Tensor lengths =
          shape.lengths ? at::tensor({17, 3, 1, 9, 16, 17}, at::kLong) : at::Tensor();

      const auto on_gpu = [&](const at::Tensor& tensor) {
        return tensor.defined() ? tensor.to(gpu()) : tensor;
      };
      const at::Tensor x_gpu = on_gpu(x.to(dtype)), dy_gpu = on_gpu(dy.to(dtype)),
                       lengths_gpu = on_gpu(lengths);
      const at::Tensor sums = batch_norm::sums(x, lengths),
                       sums_gpu = batch_norm::sums(x_gpu, lengths_gpu);
      EXPECT_EQ(sums_gpu.scalar_type(), at::kDouble);
      EXPECT_LE(difference(sums_gpu, sums), bound(wide));

      const at::Tensor count = sums[0], mean64 = sums.slice(0, 1, 1 + channels) / count;
      const at::Tensor variance = sums.slice(0, 1 + channels) / count - mean64 * mean64;
      const at::Tensor mean = mean64.to(wide), invstd = (variance + 1e-5).rsqrt().to(wide);
      const batch_norm::Saved saved{x, lengths, {weight, bias, mean, invstd}, {}, {}};
      const batch_norm::Saved saved_gpu{
          x_gpu, lengths_gpu, {on_gpu(weight), on_gpu(bias), on_gpu(mean), on_gpu(invstd)}, {}, {}};
      EXPECT_LE(difference(batch_norm::normalize(x_gpu, lengths_gpu, saved_gpu.affine, {}).y,
                           batch_norm::normalize(x, lengths, saved.affine, {}).y),
                bound(dtype));
      at::Tensor gradient = dy, gradient_gpu = dy_gpu;
      const at::Tensor slopes = batch_norm::gradient_sums(saved, gradient);
      EXPECT_LE(difference(batch_norm::gradient_sums(saved_gpu, gradient_gpu), slopes),
                bound(wide));
      EXPECT_LE(difference(batch_norm::input_gradient(saved_gpu, gradient_gpu, on_gpu(slopes),
                                                      on_gpu(count)),
                           batch_norm::input_gradient(saved, gradient, slopes, count)),
                bound(dtype));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, BatchNormOnAGpu, ::testing::Bool(),
                         [](const auto& with) { return with.param ? "Own" : "LibTorch"; });

class CheckpointingOnAGpu : public testing::GpuTest {};

struct Trained {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
};

Trained trained(const std::string& name, at::Device device, at::ScalarType autocast,
                bool checkpointing) {
  const auto network = models::make_network(
      name, {.outputs = 4, .dropout = 0.3, .image_size = 64, .checkpointing = checkpointing});
  network->to(device);
  network->train();
  at::manual_seed(1);
  const at::Tensor input = at::randn({6, 3, 64, 64}).to(device);
  Trained result;
  {
    const RandomScope randomness(random_context(1, 2, at::arange(6).to(device)));
    AutocastState state = current_autocast(device.type());
    state.enabled = autocast != at::kFloat;
    if (state.enabled) state.dtype = autocast;
    const AutocastGuard guard(state);
    result.output = network->forward(input);
  }
  result.output.to(at::kFloat)
      .square()
      .sum()
      .backward();  // outside of the scopes, as a training step does it
  for (const at::Tensor& parameter : network->parameters())
    result.gradients.push_back(parameter.grad());
  return result;
}

// Autocast, dropout and the statistics of batch norm are handed over to autograd's thread by hand.
TEST_F(CheckpointingOnAGpu, GivesTheGradientsOfTheNetworkWithoutIt) {
  for (const at::ScalarType autocast : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(c10::toString(autocast));
    const Trained plain = trained("headpose_cnn", gpu(), autocast, false);
    const Trained again = trained("headpose_cnn", gpu(), autocast, true);
    EXPECT_LE(difference(again.output, plain.output), 0) << "the same kernels on the same numbers";
    ASSERT_EQ(again.gradients.size(), plain.gradients.size());
    for (size_t i = 0; i < plain.gradients.size(); ++i) {
      EXPECT_GT(plain.gradients[i].abs().max().item<double>(), 0) << i;
      // Atomic additions in cuDNN may change their order.
      EXPECT_LE(difference(again.gradients[i], plain.gradients[i]), bound(autocast)) << i;
    }
  }
}

TEST_F(CheckpointingOnAGpu, InFloat32ComputesWhatTheCpuComputes) {
  const Trained here = trained("headpose_cnn", at::kCPU, at::kFloat, false);
  const Trained there = trained("headpose_cnn", gpu(), at::kFloat, true);
  EXPECT_LE(difference(there.output, here.output), 1e-4);
  for (size_t i = 0; i < here.gradients.size(); ++i) {
    EXPECT_LE(difference(there.gradients[i], here.gradients[i]), 1e-3) << i;
  }
}

}  // namespace
}  // namespace dtrain::layers

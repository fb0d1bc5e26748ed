// Gradient checkpointing: the same bits, the same statistics, less memory.

#include "layers/gradient_checkpointing.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "device/tensor_memory.h"
#include "layers/autocast.h"
#include "layers/batch_norm.h"
#include "layers/dropout.h"
#include "layers/linear_bottleneck.h"
#include "models/freeze.h"
#include "models/image_networks.h"
#include "os/vector_set.h"

namespace dtrain::models {
namespace {

// So that sums have the same order in both runs
const bool kOneThread = (at::set_num_threads(1), true);

struct Trained {
  std::map<std::string, at::Tensor> tensors;  // output, gradients, and buffers after the step
  int64_t held = 0, peak = 0;                 // bytes: saved for backward; peak
};

struct Setting {
  std::string network;
  int64_t size = 64, samples = 6;
  at::ScalarType autocast = at::kFloat;  // kFloat: none
  bool sync = false;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
};

Trained train(const Setting& setting, bool checkpointing, int* collectives = nullptr) {
  const auto network = make_network(
      setting.network,
      {.outputs = 4, .dropout = 0.3, .image_size = setting.size, .checkpointing = checkpointing});
  network->train();
  at::manual_seed(1);
  const at::Tensor input =
      at::randn({setting.samples, 3, setting.size, setting.size}).contiguous(setting.format);
  Trained result;
  {
    const device::TensorMemory memory;
    at::Tensor output;
    {
      const layers::RandomScope randomness(
          layers::random_context(1, 2, at::arange(setting.samples)));
      std::optional<layers::SyncScope> scope;
      if (setting.sync)
        scope.emplace(
            [&](at::Tensor& sums) { sums *= 2, collectives != nullptr ? ++*collectives : 0; });
      const layers::AutocastGuard autocast({.device = at::kCPU,
                                            .enabled = setting.autocast != at::kFloat,
                                            .dtype = setting.autocast});
      output = network->forward(input);
    }
    result.held = memory.held();
    output.square().sum().backward();  // outside all scopes
    result.tensors["output"] = output.detach();
    result.peak = memory.peak();
  }
  for (const auto& item : network->named_parameters())
    result.tensors["gradient of " + item.key()] = item.value().grad();
  for (const auto& item : network->named_buffers()) result.tensors[item.key()] = item.value();
  return result;
}

void expect_the_same(const Trained& with, const Trained& without) {
  ASSERT_EQ(with.tensors.size(), without.tensors.size());
  for (const auto& [name, tensor] : without.tensors) {
    ASSERT_TRUE(with.tensors.at(name).defined()) << name;
    EXPECT_TRUE(at::equal(with.tensors.at(name), tensor)) << name;
  }
}

class EveryNetwork : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryNetwork, HasTheSameBitsInLessMemory) {
  // Images for which the memory is mostly activations, not gradients of the weights: of simple_cnn,
  // whose first linear layer grows with the image, that takes many small ones.
  const bool heavy_weights = GetParam() == "simple_cnn";
  const Setting setting{
      .network = GetParam(), .size = heavy_weights ? 96 : 192, .samples = heavy_weights ? 32 : 6};
  const Trained with = train(setting, true), without = train(setting, false);
  expect_the_same(with, without);
  const auto megabytes = [](int64_t bytes) { return 1e-6 * static_cast<double>(bytes); };
  std::printf("%s: %.1f MB held for backward instead of %.1f MB, peak %.1f MB instead of %.1f MB\n",
              GetParam().c_str(), megabytes(with.held), megabytes(without.held),
              megabytes(with.peak), megabytes(without.peak));
  EXPECT_LT(megabytes(with.held), 0.6 * megabytes(without.held));
  // Most of simple_cnn is its first block, whose backward pass has the whole block in memory in
  // both runs.
  EXPECT_LT(megabytes(with.peak),
            (GetParam() == "simple_cnn" ? 1.05 : 0.9) * megabytes(without.peak));
}

INSTANTIATE_TEST_SUITE_P(Checkpointing, EveryNetwork, ::testing::ValuesIn(network_names()),
                         [](const auto& info) { return info.param; });

TEST(Checkpointing, HasTheSameBitsUnderAutocast) {
  const Setting setting{.network = "mobilenet_v2", .autocast = at::kBFloat16};
  expect_the_same(train(setting, true), train(setting, false));
  const Setting plain{.network = "mobilenet_v2"};
  EXPECT_FALSE(at::equal(train(plain, false).tensors["output"].to(at::kFloat),
                         train(setting, false)
                             .tensors["output"]
                             .to(at::kFloat)));  // shows that autocast has an effect
}

TEST(Checkpointing, SharedStatisticsAreReducedOnceInForward) {
  for (const auto& [network, layers] : {std::pair("resnet18", 20), std::pair("mobilenet_v2", 52)}) {
    const Setting setting{
        .network = network, .sync = true, .format = at::MemoryFormat::ChannelsLast};
    int with = 0, without = 0;
    expect_the_same(train(setting, true, &with), train(setting, false, &without));
    EXPECT_EQ(with, without);
    EXPECT_EQ(without, 2 * layers);  // forward and backward
  }
}

// As many reductions as in layers one by one, which a rank without samples runs.
TEST(Checkpointing, MobilenetsBlocksAsOneOperationAreItsLayers) {
  for (const bool sync : {false, true}) {
    const Setting setting{.network = "mobilenet_v2",
                          .size = 96,
                          .sync = sync,
                          .format = at::MemoryFormat::ChannelsLast};
    int fused = 0, one_by_one = 0;
    const Trained found = train(setting, false, &fused);
    const layers::LayersOneByOne scope;
    const Trained expected = train(setting, false, &one_by_one);
    EXPECT_EQ(fused, one_by_one);
    if (widest_vectors() != VectorSet::kAny) {
      EXPECT_LT(10 * found.held, 8 * expected.held);
    }
    for (const auto& [name, tensor] : expected.tensors) {
      const at::Tensor wide = tensor.to(at::kDouble);
      const double error = (found.tensors.at(name) - wide).norm().item<double>();
      // ReLU6 amplifies rounding on its way through 52 layers, and a bias before a convolution with
      // batch norm has no gradient but that.
      EXPECT_LE(error, 2e-2 * wide.norm().item<double>() + 1e-4) << name;
    }
  }
}

TEST(Checkpointing, AFrozenPartGetsNoGradient) {
  std::map<bool, at::Tensor> gradient;
  for (const bool on : {true, false}) {
    const auto network = make_network("resnet18", {.checkpointing = on});
    freeze(*network, {"conv1", "bn1", "layer1", "layer2.0.conv1"});
    network->train();
    at::manual_seed(1);
    network->forward(at::randn({2, 3, 64, 64})).square().sum().backward();
    EXPECT_FALSE(network->named_parameters()["layer2.0.conv1.weight"].grad().defined());
    gradient[on] = network->named_parameters()["layer2.0.conv2.weight"].grad();
  }
  EXPECT_TRUE(at::equal(gradient[true], gradient[false]));
}

TEST(Checkpointing, PassesTheGradientToItsInput) {
  const at::Tensor weight = at::full({3}, 2.0).set_requires_grad(true);
  const at::Tensor x = at::ones({3}).set_requires_grad(true);
  int calls = 0;
  const auto square = [&](const at::Tensor& input) {
    ++calls;
    return (input * weight).square();
  };
  const at::Tensor y = layers::checkpointed({weight}, square, x * 3);
  y.sum().backward();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(at::equal(x.grad(), at::full({3}, 72.0)));       // 2 · (3·2) · 2 · 3
  EXPECT_TRUE(at::equal(weight.grad(), at::full({3}, 36.0)));  // 2 · (3·2) · 3
}

}  // namespace
}  // namespace dtrain::models

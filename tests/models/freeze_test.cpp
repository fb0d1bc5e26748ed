#include <gmock/gmock.h>
#include <torch/optim.h>

#include "core/error.h"
#include "layers/batch_norm.h"
#include "models/freeze.h"
#include "models/image_networks.h"

namespace dtrain::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NamePatterns, MatchParametersAndTheLayersThatContainThem) {
  for (const char* pattern : {"layer1.0.conv1.weight", "layer1.0.conv1", "layer1", "layer1.*",
                              "*.conv1.*", "*weight", "layer?.0", "*", "l*1*w*t"}) {
    EXPECT_TRUE(matches_name(pattern, "layer1.0.conv1.weight")) << pattern;
  }
  for (const char* pattern :
       {"layer", "conv1", "layer1.", "layer1.0.conv", "layer1.0.conv1.weight?", "*bias", ""}) {
    EXPECT_FALSE(matches_name(pattern, "layer1.0.conv1.weight")) << pattern;
  }
  EXPECT_FALSE(matches_name("layer1", "layer10.weight"));
  EXPECT_FALSE(matches_name("layer[1]", "layer1.weight"));
  EXPECT_TRUE(matches_name("layer[1]*", "layer[1]/a.weight"));
  EXPECT_FALSE(matches_name("layer\\*", "layer*"));
}

TEST(Freeze, StopsParametersAndTheStatisticsOfTheirBatchNorm) {
  const auto network = make_network("resnet18", {});
  const std::vector<std::string> frozen =
      freeze(*network, {"conv1", "bn1.*", "layer1.0.bn1.weight"});
  EXPECT_THAT(frozen, ElementsAre("conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.bn1.weight"));
  network->train();
  for (const auto& item : network->named_parameters()) {
    const bool is_frozen = std::find(frozen.begin(), frozen.end(), item.key()) != frozen.end();
    EXPECT_EQ(item.value().requires_grad(), !is_frozen) << item.key();
  }
  for (const auto& item : network->named_modules()) {
    const auto* norm = item.value()->as<layers::BatchNorm>();
    if (norm == nullptr) continue;
    EXPECT_EQ(norm->frozen(), item.key() == "bn1")
        << item.key();  // the bias of layer1.0.bn1 is still trained
    EXPECT_EQ(norm->is_training(), item.key() != "bn1") << item.key();
  }
}

// A phase of the task may freeze a layer temporarily. Freezing others by name must not make
// that permanent.
TEST(Freeze, DoesNotAffectALayerThatNoPatternMatches) {
  const auto network = make_network("resnet18", {});
  for (auto& item : network->named_parameters()) item.value().set_requires_grad(false);
  freeze(*network, {"fc.bias", "layer1"});
  for (const auto& item : network->named_modules()) {
    const auto* norm = item.value()->as<layers::BatchNorm>();
    if (norm != nullptr) {
      EXPECT_EQ(norm->frozen(), item.key().starts_with("layer1.")) << item.key();
    }
  }
}

TEST(Freeze, OnlyTheOtherParametersChange) {
  const auto network = make_network("headpose_cnn", {.dropout = 0});
  freeze(*network, {"features"});
  network->train();
  const auto copy = [&] {
    std::map<std::string, at::Tensor> values;
    for (const auto& item : network->named_parameters())
      values[item.key()] = item.value().detach().clone();
    for (const auto& item : network->named_buffers()) values[item.key()] = item.value().clone();
    return values;
  };
  const auto before = copy();
  torch::optim::SGD optimizer(network->parameters(), 0.1);
  network->forward(at::randn({2, 3, 64, 64})).square().sum().backward();
  optimizer.step();
  for (const auto& [name, value] : copy()) {
    EXPECT_EQ(at::equal(value, before.at(name)), name.starts_with("features.")) << name;
  }
}

TEST(Freeze, APatternThatMatchesNothingIsNamedWithTheNearestName) {
  const auto network = make_network("resnet18", {});
  try {
    freeze(*network, {"conv1", "layer1.0.vonv1"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("'layer1.0.vonv1' matches no parameter or layer; did you mean "
                          "'layer1.0.conv1'?"));
  }
  EXPECT_TRUE(network->named_parameters()["conv1.weight"].requires_grad())
      << "something was frozen";
}

}  // namespace
}  // namespace dtrain::models

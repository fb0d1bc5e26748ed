#include "train/narrow_weights.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <optional>

#include "layers/autocast.h"

namespace dtrain::train {
namespace {

namespace nn = torch::nn;

nn::Sequential network() {
  torch::manual_seed(1);
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3).bias(false)), nn::ReLU(),
                        nn::Conv2d(8, 4, 3), nn::BatchNorm2d(4), nn::Flatten(),
                        nn::Linear(4 * 4 * 4, 5));
}

using Gradients = std::map<std::string, at::Tensor>;

// Output and gradients of one pass, with or without copies, in as many buckets.
std::pair<at::Tensor, Gradients> pass(nn::Sequential& net, NarrowWeights* narrow, size_t buckets) {
  net->zero_grad();
  torch::manual_seed(2);
  const at::Tensor input = torch::randn({6, 3, 8, 8});
  at::Tensor out;
  {
    const layers::AutocastGuard autocast({at::kCPU, true, at::kBFloat16});
    std::optional<NarrowWeights::Scope> scope;
    size_t next = 0;
    if (narrow) scope.emplace(*narrow, [&](const at::Tensor&) { return next++ % buckets; });
    out = net->forward(input);
  }
  out.to(at::kFloat).square().sum().backward();
  Gradients gradients;
  for (const auto& item : net->named_parameters())
    gradients.emplace(item.key(),
                      item.value().grad().defined() ? item.value().grad().clone() : at::Tensor());
  return {out, gradients};
}

TEST(NarrowWeights, GiveTheBitsOfAutocast) {
  nn::Sequential net = network();
  const auto expected = pass(net, nullptr, 1);
  NarrowWeights narrow(*net, at::kBFloat16);
  EXPECT_EQ(narrow.bytes(), 2 * (8 * 3 * 9 + 4 * 8 * 9 + 4 + 64 * 5 + 5));
  narrow.refresh();
  for (const size_t buckets : {1, 2, 5}) {
    const auto found = pass(net, &narrow, buckets);
    EXPECT_EQ(found.first.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(found.first.equal(expected.first));
    for (const auto& [name, gradient] : expected.second) {
      ASSERT_TRUE(found.second.at(name).defined()) << name;
      EXPECT_EQ(found.second.at(name).scalar_type(), at::kFloat) << name;
      EXPECT_TRUE(found.second.at(name).equal(gradient)) << name;
    }
  }
}

TEST(NarrowWeights, FollowTheWeightsWhenTheyAreMadeAnew) {
  nn::Sequential net = network();
  NarrowWeights narrow(*net, at::kBFloat16);
  narrow.refresh();
  const at::Tensor before = pass(net, &narrow, 1).first;
  {
    const at::NoGradGuard no_grad;
    net->parameters()[0].mul_(2);
  }
  EXPECT_TRUE(pass(net, &narrow, 1).first.equal(before));
  narrow.refresh();
  EXPECT_TRUE(pass(net, &narrow, 1).first.equal(pass(net, nullptr, 1).first));
}

TEST(NarrowWeights, LeaveTheLayersAsTheyWere) {
  nn::Sequential net = network();
  auto* conv = net[0]->as<nn::Conv2d>();
  const at::Tensor weight = conv->weight;
  NarrowWeights narrow(*net, at::kHalf);
  {
    const NarrowWeights::Scope scope(narrow, [](const at::Tensor&) { return 0; });
    EXPECT_EQ(conv->weight.scalar_type(), at::kHalf);
    EXPECT_TRUE(net->named_parameters()["0.weight"].is_same(weight));
  }
  EXPECT_TRUE(conv->weight.is_same(weight));
}

TEST(NarrowWeights, AFrozenWeightHasNoGradient) {
  nn::Sequential net = network();
  net->parameters()[0].set_requires_grad(false);
  NarrowWeights narrow(*net, at::kBFloat16);
  narrow.refresh();
  const Gradients gradients = pass(net, &narrow, 1).second;
  EXPECT_FALSE(gradients.at("0.weight").defined());
  EXPECT_TRUE(gradients.at("2.weight").defined());
}

TEST(NarrowWeights, InFloat32ThereAreNone) {
  nn::Sequential net = network();
  NarrowWeights narrow(*net, at::kFloat);
  EXPECT_EQ(narrow.bytes(), 0);
  narrow.refresh();
  const NarrowWeights::Scope scope(narrow, [](const at::Tensor&) { return 0; });
  EXPECT_EQ(net[0]->as<nn::Conv2d>()->weight.scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace dtrain::train

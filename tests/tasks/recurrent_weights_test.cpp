#include "tasks/module/recurrent_weights.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include "support/recurrent_networks.h"

namespace dtrain::tasks {
namespace {

TEST(RecurrentWeights, AreTorchsInTorchsOrder) {
  for (const testing::RecurrentNetwork& network : testing::recurrent_networks()) {
    SCOPED_TRACE(network.name);
    const auto found = recurrent_weights(*network.module);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->kind, network.kind);
    EXPECT_EQ(found->per_layer, network.per_layer);
    EXPECT_EQ(found->input, 5);
    EXPECT_EQ(found->hidden, 7);
    EXPECT_EQ(found->projection, network.projection);
    EXPECT_EQ(found->layers, network.layers);
    EXPECT_EQ(found->bidirectional, network.bidirectional);
    ASSERT_EQ(found->weights.size(), network.weights.size());
    for (size_t i = 0; i < network.weights.size(); ++i)
      EXPECT_TRUE(found->weights[i].is_same(network.weights[i])) << i;
  }
}

TEST(RecurrentWeights, AreNotThoseOfOtherLayers) {
  EXPECT_FALSE(recurrent_weights(*torch::nn::Linear(3, 4)).has_value());
  EXPECT_FALSE(recurrent_weights(*torch::nn::LSTMCell(3, 4)).has_value());
}

}  // namespace
}  // namespace dtrain::tasks

#include "catalog/networks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "catalog/catalog.h"

namespace dtrain::catalog {
namespace {

const PictureLayers& layers_of(std::string_view network) {
  return std::get<PictureLayers>(find_network(network)->layers);
}

TEST(Networks, AreFoundByName) {
  EXPECT_EQ(find_network("resnet18")->name, "resnet18");
  EXPECT_EQ(find_network("resnet81"), nullptr);
  EXPECT_EQ(find_network("auto"), nullptr);
  EXPECT_TRUE(is_from_file("torchscript"));
  EXPECT_FALSE(is_from_file("resnet18") || is_from_file("resnet81"));
  EXPECT_TRUE(find_network("cnn_lstm")->recurrent() &&
              find_network("pointer_network")->recurrent());
}

TEST(Networks, BlocksFollowEachOther) {
  for (const std::string& name : names_of(NetworkId{})) {
    const NetworkEntry* network = find_network(name);
    if (network == nullptr || !std::holds_alternative<PictureLayers>(network->layers)) continue;
    const PictureLayers& layers = layers_of(name);
    int64_t channels = layers.stem.out > 0 ? layers.stem.out : 3;
    for (const ConvBlock& block : blocks_of(layers)) {
      EXPECT_EQ(block.in(), channels) << name;
      int64_t stride = 1;
      for (const Convolution& conv : block.convolutions) {
        EXPECT_EQ(conv.in, channels) << name;
        EXPECT_EQ(conv.in % conv.groups, 0) << name;
        channels = conv.out;
        stride *= conv.stride;
      }
      EXPECT_EQ(block.stride, stride) << name;
    }
  }
}

// The number of convolutions and fully connected layers is in the networks' names (He et al. 2015).
TEST(Networks, ResnetsHaveAsManyLayersAsTheirNamesSay) {
  for (const auto& [name, named] : {std::pair("resnet18", 18u), std::pair("resnet50", 50u)}) {
    size_t count = 2;  // stem and head
    int64_t stride = layers_of(name).stem.stride * kStemPooling.stride, shortcuts = 0;
    for (const ConvBlock& block : blocks_of(layers_of(name))) {
      count += block.convolutions.size();
      stride *= block.stride;
      shortcuts += block.keeps_shape() ? 0 : 1;
    }
    EXPECT_EQ(count, named);
    EXPECT_EQ(stride, 32);
    EXPECT_EQ(shortcuts, named == 18 ? 3 : 4);
    EXPECT_EQ(blocks_of(layers_of(name)).back().out(), named == 18 ? 512 : 2048);
  }
}

TEST(Networks, MobilenetExpandsInAllBlocksButTheFirst) {
  const std::vector<ConvBlock> blocks = blocks_of(layers_of("mobilenet_v2"));
  ASSERT_EQ(blocks.size(), 17u);
  EXPECT_EQ(blocks[0].convolutions.size(), 2u);
  for (size_t i = 1; i < blocks.size(); ++i) {
    const std::vector<Convolution>& convs = blocks[i].convolutions;
    ASSERT_EQ(convs.size(), 3u);
    EXPECT_EQ(convs[0].out, 6 * blocks[i].in());
    EXPECT_EQ(convs[1].groups, convs[0].out);
  }
  EXPECT_EQ(std::ranges::count_if(blocks, &ConvBlock::keeps_shape), 10);
  EXPECT_EQ(blocks.back().out(), 320);
}

}  // namespace
}  // namespace dtrain::catalog

#include "catalog/networks.h"

namespace dtrain::catalog {
namespace {

std::vector<Convolution> convolutions_of(ConvBlockKind kind, const ConvStage& stage, int64_t in,
                                         int64_t stride) {
  const int64_t channels = stage.channels;
  switch (kind) {
    case ConvBlockKind::kPlain:
      return {{in, channels, 3, stride}};
    case ConvBlockKind::kResidual:
      return {{in, channels, 3, stride}, {channels, channels, 3}};
    case ConvBlockKind::kBottleneck:
      return {{in, channels}, {channels, channels, 3, stride}, {channels, 4 * channels}};
    case ConvBlockKind::kInvertedResidual:
      break;
  }
  const int64_t wide = in * stage.expansion;
  std::vector<Convolution> convolutions = {{wide, wide, 3, stride, wide}, {wide, channels}};
  if (stage.expansion != 1) convolutions.insert(convolutions.begin(), {in, wide});
  return convolutions;
}

}  // namespace

std::vector<ConvBlock> blocks_of(const PictureLayers& layers) {
  std::vector<ConvBlock> blocks;
  int64_t in = layers.stem.out > 0 ? layers.stem.out : layers.stem.in;
  for (size_t s = 0; s < layers.stages.size() && layers.stages[s].channels > 0; ++s) {
    const ConvStage& stage = layers.stages[s];
    for (int64_t i = 0; i < stage.blocks; ++i) {
      const int64_t stride = i == 0 ? stage.stride : 1;
      blocks.push_back({.convolutions = convolutions_of(layers.block, stage, in, stride),
                        .stage = s,
                        .number = i,
                        .stride = stride});
      in = blocks.back().out();
    }
  }
  return blocks;
}

std::string_view head_of(const PictureLayers& layers) {
  switch (layers.block) {
    case ConvBlockKind::kPlain:
      return layers.averages ? "fc.2" : "fc.3";
    case ConvBlockKind::kInvertedResidual:
      return "classifier.1";
    default:
      return "fc";
  }
}

}  // namespace dtrain::catalog

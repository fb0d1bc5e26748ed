// Convolutional networks for images, block by block as in src/models/.

#include "export/layers.h"
#include "export/networks.h"
#include "text/strings.h"

namespace dtrain::exporting {
namespace {

using catalog::ConvBlock;
using catalog::Convolution;
using catalog::PictureLayers;

std::string plain(Layers& layers, Builder& graph, const PictureLayers& net, bool batch_norm,
                  const std::string& images) {
  std::string x = images;
  int64_t index = 0;
  for (const ConvBlock& block : catalog::blocks_of(net)) {
    const std::string name = str("features.", index++);
    const std::string norm = batch_norm ? name + ".1" : "";
    x = layers.relu(layers.conv(x, name + ".0", block.convolutions.front(), norm));
    x = layers.max_pool(x, {.kernel = 2, .stride = 2});
  }
  x = net.averages ? layers.global_average(x) : graph.add("Flatten", {x}, {{"axis", int64_t{1}}});
  return layers.relu(layers.linear(x, "fc.0"));
}

std::string resnet(Layers& layers, Builder& graph, const PictureLayers& net,
                   const std::string& images) {
  std::string x = layers.relu(layers.conv(images, "conv1", net.stem, "bn1"));
  x = layers.max_pool(x, catalog::kStemPooling);
  for (const ConvBlock& block : catalog::blocks_of(net)) {
    const std::string name = str("layer", block.stage + 1, ".", block.number, ".");
    std::string y = x;
    int64_t n = 1;
    for (const Convolution& conv : block.convolutions) {
      if (n > 1) y = layers.relu(y);
      y = layers.conv(y, str(name, "conv", n), conv, str(name, "bn", n));
      ++n;
    }
    if (!block.keeps_shape()) {
      x = layers.conv(x, name + "downsample.0",
                      {.in = block.in(), .out = block.out(), .stride = block.stride},
                      name + "downsample.1");
    }
    x = layers.relu(graph.add("Add", {y, x}));
  }
  return layers.global_average(x);
}

std::string mobilenet_v2(Layers& layers, Builder& graph, const PictureLayers& net,
                         const std::string& images) {
  const auto conv_norm_relu6 = [&](const std::string& x, const std::string& name,
                                   const Convolution& conv) {
    return layers.relu6(layers.conv(x, name + ".0", conv, name + ".1"));
  };
  std::string x = conv_norm_relu6(images, "features.0", net.stem);
  int64_t index = 1;
  Convolution last{.out = net.features};
  for (const ConvBlock& block : catalog::blocks_of(net)) {
    const std::string name = str("features.", index++, ".conv.");
    std::string y = x;
    size_t part = 0;
    for (; part + 1 < block.convolutions.size(); ++part)
      y = conv_norm_relu6(y, str(name, part), block.convolutions[part]);
    y = layers.conv(y, str(name, part), block.convolutions.back(), str(name, part + 1));
    x = block.keeps_shape() ? graph.add("Add", {x, y}) : y;
    last.in = block.out();
  }
  return layers.global_average(conv_norm_relu6(x, str("features.", index), last));
}

// The name of the graph's output, by the task that was trained.
std::string output_name(const Metadata& metadata) {
  const auto task = value_named<catalog::TaskId>(required(metadata, "task"));
  return task ? catalog::row(*task).output : catalog::TaskEntry{}.output;
}

}  // namespace

Graph image_graph(const catalog::NetworkEntry& network, const PictureLayers& net,
                  const Weights& weights, const Metadata& metadata) {
  const int64_t size = required_integer(metadata, "image_size");
  Builder graph(required(metadata, "network"));
  Layers layers(graph, weights);
  const std::string images =
      graph.input("images", TensorType::kFloat, {"batch", int64_t{3}, size, size});
  std::string features;
  switch (net.block) {
    case catalog::ConvBlockKind::kPlain:
      features = plain(layers, graph, net, network.batch_norm, images);
      break;
    case catalog::ConvBlockKind::kInvertedResidual:
      features = mobilenet_v2(layers, graph, net, images);
      break;
    default:
      features = resnet(layers, graph, net, images);
  }
  const std::string head(catalog::head_of(net));
  const std::string output = layers.linear(features, head);
  weights.check_all_used();
  graph.output(output, output_name(metadata), TensorType::kFloat,
               {"batch", layers.outputs_of(head)});
  return graph.finish(metadata);
}

}  // namespace dtrain::exporting

// Convolutional networks for images, layer by layer as in src/models/.

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/strings.h"
#include "export/layers.h"
#include "export/networks.h"

namespace dtrain::exporting {
namespace {

std::string headpose_cnn(Layers& layers, const std::string& images) {
  std::string x = images;
  for (int64_t block = 0; block < 5; ++block) {
    const std::string name = str("features.", block);
    x = layers.relu(layers.conv(x, name + ".0", {.padding = 1, .norm = name + ".1"}));
    x = layers.max_pool(x, 2, 2, 0);
  }
  return layers.linear(layers.relu(layers.linear(layers.global_average(x), "fc.0")), "fc.2");
}

std::string simple_cnn(Layers& layers, Builder& graph, const std::string& images) {
  std::string x = images;
  for (int64_t block = 0; block < 3; ++block) {
    x = layers.max_pool(layers.relu(layers.conv(x, str("features.", block, ".0"), {.padding = 1})),
                        2, 2, 0);
  }
  x = graph.add("Flatten", {x}, {{"axis", int64_t{1}}});
  return layers.linear(layers.relu(layers.linear(x, "fc.0")), "fc.3");
}

std::string resnet(Layers& layers, Builder& graph, const Weights& weights,
                   const std::array<int64_t, 4>& depths, const std::string& images) {
  std::string x =
      layers.relu(layers.conv(images, "conv1", {.stride = 2, .padding = 3, .norm = "bn1"}));
  x = layers.max_pool(x, 3, 2, 1);
  for (size_t stage = 0; stage < depths.size(); ++stage) {
    for (int64_t i = 0; i < depths[stage]; ++i) {
      const std::string block = str("layer", stage + 1, ".", i, ".");
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      const bool bottleneck = weights.has(block + "conv3.weight");
      std::string y = x;
      for (int64_t n = 1; n <= (bottleneck ? 3 : 2); ++n) {
        const bool wide = !bottleneck || n == 2;  // 3×3, else 1×1
        const int64_t step =
            n == (bottleneck ? 2 : 1) ? stride : 1;  // torchvision strides in a bottleneck's 3×3
        if (n > 1) y = layers.relu(y);
        y = layers.conv(y, str(block, "conv", n),
                        {.stride = step, .padding = wide ? 1 : 0, .norm = str(block, "bn", n)});
      }
      if (weights.has(block + "downsample.0.weight")) {
        x = layers.conv(x, block + "downsample.0",
                        {.stride = stride, .norm = block + "downsample.1"});
      }
      x = layers.relu(graph.add("Add", {y, x}));
    }
  }
  return layers.linear(layers.global_average(x), "fc");
}

std::string mobilenet_v2(Layers& layers, Builder& graph, const Weights& weights,
                         const std::string& images) {
  struct Stage {
    int64_t channels, blocks, stride;
  };
  static constexpr std::array<Stage, 7> kStages = {
      {{16, 1, 1}, {24, 2, 2}, {32, 3, 2}, {64, 4, 2}, {96, 3, 1}, {160, 3, 2}, {320, 1, 1}}};
  std::string x = layers.relu6(
      layers.conv(images, "features.0.0", {.stride = 2, .padding = 1, .norm = "features.0.1"}));
  int64_t in = 32, index = 1;
  for (const Stage& stage : kStages) {
    for (int64_t i = 0; i < stage.blocks; ++i, ++index) {
      const std::string block = str("features.", index, ".conv.");
      const int64_t stride = i == 0 ? stage.stride : 1;
      std::string y = x;
      int64_t part = 0;
      if (weights.has(block + "3.weight")) {  // 1×1 expansion, in all blocks except the first
        y = layers.relu6(layers.conv(y, block + "0.0", {.norm = block + "0.1"}));
        part = 1;
      }
      const std::string depthwise = str(block, part, ".0");
      y = layers.relu6(layers.conv(y, depthwise,
                                   {.stride = stride,
                                    .padding = 1,
                                    .groups = weights.at(depthwise + ".weight", 4).shape[0],
                                    .norm = str(block, part, ".1")}));
      y = layers.conv(y, str(block, part + 1), {.norm = str(block, part + 2)});
      x = stride == 1 && in == stage.channels ? graph.add("Add", {x, y}) : y;
      in = stage.channels;
    }
  }
  x = layers.relu6(layers.conv(x, "features.18.0", {.norm = "features.18.1"}));
  return layers.linear(layers.global_average(x), "classifier.1");
}

}  // namespace

Graph image_graph(const Weights& weights, const Metadata& metadata) {
  const std::string& network = required(metadata, "network");
  const int64_t size = required_integer(metadata, "image_size");
  Builder graph(network);
  Layers layers(graph, weights);
  const std::string images =
      graph.input("images", Element::kFloat, {"batch", int64_t{3}, size, size});
  std::string output, head = "fc";
  if (network == "headpose_cnn") {
    output = headpose_cnn(layers, images);
    head = "fc.2";
  } else if (network == "simple_cnn") {
    output = simple_cnn(layers, graph, images);
    head = "fc.3";
  } else if (network == "resnet18") {
    output = resnet(layers, graph, weights, {2, 2, 2, 2}, images);
  } else if (network == "resnet50") {
    output = resnet(layers, graph, weights, {3, 4, 6, 3}, images);
  } else if (network == "mobilenet_v2") {
    output = mobilenet_v2(layers, graph, weights, images);
    head = "classifier.1";
  } else {
    throw UsageError(
        str("network '", network, "' cannot be exported to ONNX: use --format safetensors"));
  }
  weights.check_all_used();
  const std::string name = required(metadata, "task") == "headpose" ? "angles" : "logits";
  graph.output(output, name, Element::kFloat, {"batch", layers.outputs_of(head)});
  return graph.finish(metadata);
}

}  // namespace dtrain::exporting

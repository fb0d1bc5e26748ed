#include "export/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace dtrain::exporting {
namespace {

// images -> conv -> relu -> max pool -> conv2 -> add(pool) -> average -> flatten -> fc
Graph residual() {
  Builder graph("residual");
  graph.input("images", TensorType::kFloat, {"batch", int64_t{1}, int64_t{4}, int64_t{4}});
  const auto conv = [&](const std::string& x, const std::string& name, float w, float b) {
    return graph.add("Conv",
                     {x, graph.floats(name + ".weight", {1, 1, 1, 1}, {w}),
                      graph.floats(name + ".bias", {1}, {b})},
                     {{"kernel_shape", std::vector<int64_t>{1, 1}}}, name);
  };
  graph.add("Relu", {conv("images", "conv", 0.5f, 0.1f)}, {}, "relu");
  graph.add("MaxPool", {"relu"},
            {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}},
            "pool");
  graph.add("Add", {conv("pool", "conv2", -1, 0), "pool"}, {}, "sum");
  graph.add("Flatten", {graph.add("GlobalAveragePool", {"sum"}, {}, "average")},
            {{"axis", int64_t{1}}}, "flat");
  graph.add(
      "Gemm",
      {"flat", graph.floats("fc.weight", {1, 2}, {1, -2}), graph.floats("fc.bias", {2}, {0, 1})},
      {}, "fc");
  graph.output("fc", "logits", TensorType::kFloat, {"batch", int64_t{2}});
  return graph.finish({});
}

std::vector<const Node*> of_op(const Graph& graph, const std::string& op) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes) {
    if (node.op == op) found.push_back(&node);
  }
  return found;
}

template <typename T>
std::vector<T> values_of(const Graph& graph, const std::string& name) {
  const Constant* constant = graph.constant(name);
  EXPECT_NE(constant, nullptr) << name;
  if (constant == nullptr) return {};
  std::vector<T> values(constant->bytes.size() / sizeof(T));
  std::memcpy(values.data(), constant->bytes.data(), constant->bytes.size());
  return values;
}

TEST(ScaleOf, KeepsZeroExactAndCoversTheRange) {
  EXPECT_EQ(scale_of({0, 6}).zero_point, 0);
  EXPECT_FLOAT_EQ(scale_of({0, 6}).scale, 6.0f / 255);
  EXPECT_EQ(scale_of({-2, 0}).zero_point, 255);
  const ActivationScale mixed = scale_of({-1, 3});
  EXPECT_NEAR((0 - mixed.zero_point) * mixed.scale, -1, mixed.scale / 2);
  EXPECT_NEAR((255 - mixed.zero_point) * mixed.scale, 3, mixed.scale / 2);
  EXPECT_GT(scale_of({0, 0}).scale, 0);
}

TEST(LeastErrorRange, KeepsAnEvenDistributionAndClipsAnOutlier) {
  Histogram even{0, 1, std::vector<int64_t>(2048, 10)};
  EXPECT_GT(least_error_range(even).high, 0.98f);
  Histogram far{-1, 100, std::vector<int64_t>(2048, 0)};
  for (size_t bin = 0; bin < 100; ++bin) far.counts[bin] = 100000;  // up to 4
  far.counts[2047] = 1;
  const ActivationRange range = least_error_range(far);
  EXPECT_LT(range.high, 30);
  EXPECT_NEAR(range.low, -1, 0.1);  // no clipping where most values are
}

TEST(Quantize, InsertsNothingBetweenAConvolutionAndItsRelu) {
  // "conv" is read by the ReLU only; "pool" and "flat" have the scales of their inputs; "logits" is
  // the output.
  EXPECT_EQ(activations_to_quantize(residual()),
            (std::vector<std::string>{"images", "relu", "conv2", "sum", "average"}));
}

const std::map<std::string, ActivationRange> kRanges = {{"images", {-1, 1}},
                                                        {"relu", {0, 2}},
                                                        {"conv2", {-2, 0}},
                                                        {"sum", {-2, 2}},
                                                        {"average", {-1, 1}}};

TEST(Quantize, InsertsAPairBeforeEveryOperatorThatRunsInInt8) {
  const Graph graph = quantize(residual(), kRanges);
  // Images, relu, pool, conv2, sum, average, flat
  EXPECT_EQ(of_op(graph, "QuantizeLinear").size(), 7u);
  // Plus those of three weights and biases
  EXPECT_EQ(of_op(graph, "DequantizeLinear").size(), 7u + 3 * 2);
  for (const char* op : {"Conv", "Gemm"}) {
    for (const Node* node : of_op(graph, op)) {
      for (const std::string& input : node->inputs)
        EXPECT_NE(input.find(".dequantised"), std::string::npos) << input;
    }
  }
  EXPECT_EQ(of_op(graph, "Relu")[0]->inputs, std::vector<std::string>{"conv"});
  EXPECT_EQ(of_op(graph, "Add")[0]->inputs,
            (std::vector<std::string>{"conv2.dequantised", "pool.dequantised"}));
  for (const Node* node : of_op(graph, "QuantizeLinear")) {
    if (node->inputs[0] == "pool") {
      EXPECT_EQ(node->inputs[1], "relu.scale");
    }
    if (node->inputs[0] == "flat") {
      EXPECT_EQ(node->inputs[1], "average.scale");
    }
  }
  EXPECT_EQ(graph.outputs[0].name, "logits");
  for (const Constant& constant : graph.constants) {
    EXPECT_FALSE(constant.element == TensorType::kFloat && constant.name.ends_with(".weight"))
        << constant.name;
  }
}

TEST(Quantize, GivesEachChannelItsOwnSymmetricScale) {
  const Graph graph = quantize(residual(), kRanges);
  EXPECT_EQ(values_of<int8_t>(graph, "fc.weight.quantised"), (std::vector<int8_t>{127, -127}));
  const std::vector<float> scales = values_of<float>(graph, "fc.weight.scale");
  EXPECT_FLOAT_EQ(scales[0], 1.0f / 127);
  EXPECT_FLOAT_EQ(scales[1], 2.0f / 127);
  EXPECT_EQ(values_of<int8_t>(graph, "fc.weight.zero_point"), (std::vector<int8_t>{0, 0}));
  const float input_scale = values_of<float>(graph, "average.scale")[0];
  const std::vector<int32_t> biases = values_of<int32_t>(graph, "fc.bias.quantised");
  EXPECT_NEAR(static_cast<float>(biases[1]) * input_scale * scales[1], 1, 1e-3);
}

TEST(Quantize, KeepsTheBiasOfAChannelWithoutWeights) {
  Graph graph = residual();
  for (Constant& constant : graph.constants) {
    if (constant.name == "conv.weight") constant.bytes.assign(4, std::byte{0});
    if (constant.name == "conv.bias")
      constant.bytes = bytes_of(std::span<const float>(std::vector<float>{3.5f}));
  }
  const Graph quantized = quantize(graph, kRanges);
  const double scale = values_of<float>(quantized, "conv.bias.scale")[0];
  EXPECT_NEAR(values_of<int32_t>(quantized, "conv.bias.quantised")[0] * scale, 3.5, 1e-3);
  EXPECT_EQ(values_of<int8_t>(quantized, "conv.weight.quantised"), std::vector<int8_t>{0});
}

}  // namespace
}  // namespace dtrain::exporting

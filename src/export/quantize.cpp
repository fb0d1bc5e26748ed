#include "export/quantize.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "core/check.h"

namespace dtrain::exporting {
namespace {

constexpr int kLevels = 255;          // steps between the 256 values of uint8
constexpr float kTinyScale = 1e-20f;  // for a channel whose weights are all zero

bool has_weights(const Node& node) { return node.op == "Conv" || node.op == "Gemm"; }
bool moves_values_only(const Node& node) { return node.op == "MaxPool" || node.op == "Flatten"; }
bool works_in_int8(const Node& node) {
  return has_weights(node) || moves_values_only(node) || node.op == "Add" ||
         node.op == "GlobalAveragePool";
}

std::map<std::string, std::vector<const Node*>> readers_of(const Graph& graph) {
  std::map<std::string, std::vector<const Node*>> readers;
  for (const Node& node : graph.nodes) {
    for (const std::string& input : node.inputs) readers[input].push_back(&node);
  }
  return readers;
}

// By name, the activation whose scale it shares: itself, or the one that was pooled or flattened
// into it.
std::map<std::string, std::string> owners_of(const Graph& graph) {
  std::map<std::string, std::string> owners;
  for (const Port& input : graph.inputs) owners[input.name] = input.name;
  for (const Node& node : graph.nodes) {
    const std::string& output = node.outputs[0];
    owners[output] = moves_values_only(node) ? owners.at(node.inputs[0]) : output;
  }
  return owners;
}

// The activations that pass through QuantizeLinear: all that an INT8 operator reads.
std::vector<std::string> quantized(const Graph& graph) {
  const auto readers = readers_of(graph);
  std::vector<std::string> names;
  const auto consider = [&](const std::string& name) {
    const auto found = readers.find(name);
    if (found == readers.end()) return;  // an output of the graph
    if (std::ranges::any_of(found->second, [](const Node* node) { return works_in_int8(*node); }))
      names.push_back(name);
  };
  for (const Port& input : graph.inputs) consider(input.name);
  for (const Node& node : graph.nodes) consider(node.outputs[0]);
  return names;
}

// Where the weights of each output channel, which share a scale, are stored.
struct ChannelLayout {
  int64_t channels, run, groups;  // shape [groups, channels, run]
};

ChannelLayout layout_of(const Constant& weight, const Node& node) {
  const auto elements = static_cast<int64_t>(weight.bytes.size() / sizeof(float));
  if (node.op == "Gemm") return {weight.shape[1], 1, weight.shape[0]};
  return {weight.shape[0], elements / weight.shape[0], 1};
}

struct Int8Weights {
  std::vector<float> scales;    // [channels]
  std::vector<int8_t> values;   // same layout as the weight
  std::vector<int32_t> biases;  // [channels], in units of input scale × weight scale
};

Int8Weights int8_weights(std::span<const float> weight, std::span<const float> bias,
                         const ChannelLayout& layout, float input_scale) {
  Int8Weights out;
  out.scales.assign(static_cast<size_t>(layout.channels), kTinyScale);
  out.values.resize(weight.size());
  out.biases.resize(static_cast<size_t>(layout.channels));
  const auto channel_of = [&](size_t i) {
    return i / static_cast<size_t>(layout.run) % static_cast<size_t>(layout.channels);
  };
  for (size_t i = 0; i < weight.size(); ++i) {
    float& scale = out.scales[channel_of(i)];
    scale = std::max(scale, std::abs(weight[i]) / 127);
  }
  for (size_t c = 0; c < out.scales.size(); ++c) {
    // If all weights of a channel are tiny, its bias must still fit into int32.
    out.scales[c] =
        std::max(out.scales[c], std::abs(bias[c]) / (input_scale * static_cast<float>(1 << 30)));
    out.biases[c] = static_cast<int32_t>(std::nearbyint(
        static_cast<double>(bias[c]) / (static_cast<double>(input_scale) * out.scales[c])));
  }
  for (size_t i = 0; i < weight.size(); ++i) {
    out.values[i] = static_cast<int8_t>(
        std::clamp(std::nearbyint(weight[i] / out.scales[channel_of(i)]), -127.f, 127.f));
  }
  return out;
}

class Rewriter {
 public:
  Rewriter(const Graph& graph, const std::map<std::string, ActivationRange>& ranges)
      : graph_(graph), owners_(owners_of(graph)), ranges_(ranges), builder_(graph.name) {}

  Graph run() {
    const std::vector<std::string> names = quantized(graph_);
    const std::set<std::string> wanted(names.begin(), names.end());
    for (const Port& input : graph_.inputs) {
      builder_.input(input.name, input.element, input.shape);
      if (wanted.contains(input.name)) quantize_activation(input.name);
    }
    for (const Node& node : graph_.nodes) {
      std::vector<std::string> inputs = node.inputs;
      const bool int8 = works_in_int8(node);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (i > 0 && int8 && has_weights(node)) continue;
        if (const auto found = dequantized_.find(inputs[i]); int8 && found != dequantized_.end()) {
          inputs[i] = found->second;
        } else if (const Constant* constant = graph_.constant(inputs[i])) {
          copy(*constant);
        }
      }
      if (has_weights(node)) quantize_weights(node, &inputs);
      builder_.add(node.op, inputs, node.attributes, node.outputs[0]);
      if (wanted.contains(node.outputs[0])) quantize_activation(node.outputs[0]);
    }
    Graph out = builder_.finish(graph_.metadata);
    out.outputs = graph_.outputs;
    return out;
  }

 private:
  void copy(const Constant& constant) {
    if (!builder_.has_constant(constant.name))
      builder_.constant(constant.name, constant.element, constant.shape, constant.bytes);
  }

  ActivationScale scale_of_activation(const std::string& name) const {
    const auto found = ranges_.find(owners_.at(name));
    DTRAIN_CHECK(found != ranges_.end(), name);
    return scale_of(found->second);
  }

  void quantize_activation(const std::string& name) {
    const std::string& owner = owners_.at(name);
    const ActivationScale parameters = scale_of_activation(name);
    const std::string scale = owner + ".scale", zero = owner + ".zero_point";
    if (!builder_.has_constant(scale)) {
      builder_.floats(scale, {}, {parameters.scale});
      builder_.constant(zero, TensorType::kUint8, {},
                        {static_cast<std::byte>(parameters.zero_point)});
    }
    const std::string integers =
        builder_.add("QuantizeLinear", {name, scale, zero}, {}, name + ".quantised");
    dequantized_[name] =
        builder_.add("DequantizeLinear", {integers, scale, zero}, {}, name + ".dequantised");
  }

  void quantize_weights(const Node& node, std::vector<std::string>* inputs) {
    const Constant* weight = graph_.constant(node.inputs.at(1));
    const Constant* bias = graph_.constant(node.inputs.at(2));
    DTRAIN_CHECK(weight != nullptr && bias != nullptr, node.outputs[0]);
    const ChannelLayout layout = layout_of(*weight, node);
    const float input_scale = scale_of_activation(node.inputs[0]).scale;
    const Int8Weights int8 =
        int8_weights(floats_of(*weight), floats_of(*bias), layout, input_scale);
    const int64_t axis = node.op == "Gemm" ? 1 : 0;

    const std::string scales =
        builder_.floats(weight->name + ".scale", {layout.channels}, int8.scales);
    const std::string zeros =
        builder_.constant(weight->name + ".zero_point", TensorType::kInt8, {layout.channels},
                          std::vector<std::byte>(static_cast<size_t>(layout.channels)));
    const std::string values =
        builder_.constant(weight->name + ".quantised", TensorType::kInt8, weight->shape,
                          bytes_of(std::span<const int8_t>(int8.values)));
    (*inputs)[1] = builder_.add("DequantizeLinear", {values, scales, zeros}, {{"axis", axis}},
                                weight->name + ".dequantised");

    std::vector<float> bias_scales = int8.scales;
    for (float& scale : bias_scales) scale *= input_scale;
    const std::string of_bias =
        builder_.floats(bias->name + ".scale", {layout.channels}, bias_scales);
    const std::string biases =
        builder_.constant(bias->name + ".quantised", TensorType::kInt32, {layout.channels},
                          bytes_of(std::span<const int32_t>(int8.biases)));
    (*inputs)[2] = builder_.add("DequantizeLinear", {biases, of_bias}, {{"axis", int64_t{0}}},
                                bias->name + ".dequantised");
  }

  const Graph& graph_;
  std::map<std::string, std::string> owners_;
  const std::map<std::string, ActivationRange>& ranges_;
  Builder builder_;
  std::map<std::string, std::string> dequantized_;  // activation -> name of its dequantized form
};

double squared_error(const Histogram& histogram, ActivationRange range) {
  const ActivationScale parameters = scale_of(range);
  const double width = (static_cast<double>(histogram.high) - histogram.low) /
                       static_cast<double>(histogram.counts.size());
  double error = 0;
  for (size_t bin = 0; bin < histogram.counts.size(); ++bin) {
    if (histogram.counts[bin] == 0) continue;
    const double value = histogram.low + (static_cast<double>(bin) + 0.5) * width;
    const double q = std::clamp(std::nearbyint(value / parameters.scale) + parameters.zero_point,
                                0.0, double{kLevels});
    const double difference = value - (q - parameters.zero_point) * parameters.scale;
    error += static_cast<double>(histogram.counts[bin]) * difference * difference;
  }
  return error;
}

}  // namespace

ActivationScale scale_of(ActivationRange range) {
  const float low = std::min(range.low, 0.0f), high = std::max(range.high, 0.0f);
  ActivationScale out;
  out.scale = std::max((high - low) / kLevels, 1e-12f);
  out.zero_point = static_cast<uint8_t>(std::clamp(std::nearbyint(-low / out.scale), 0.0f, 255.0f));
  return out;
}

// The two ends are chosen one after the other: an outlier on one side says nothing about the
// other side.
ActivationRange least_error_range(const Histogram& histogram) {
  static constexpr int kSteps = 80;  // each end is reduced to a fifth, in steps of 1%
  ActivationRange best{histogram.low, histogram.high};
  double least = squared_error(histogram, best);
  for (float ActivationRange::*const end : {&ActivationRange::high, &ActivationRange::low}) {
    const ActivationRange from = best;
    for (int step = 1; step <= kSteps; ++step) {
      ActivationRange range = from;
      range.*end *= 1 - static_cast<float>(step) / 100;
      if (const double error = squared_error(histogram, range); error < least) {
        least = error;
        best = range;
      }
    }
  }
  return best;
}

std::vector<std::string> activations_to_quantize(const Graph& graph) {
  const auto owners = owners_of(graph);
  std::vector<std::string> names;
  for (const std::string& name : quantized(graph)) {
    const std::string& owner = owners.at(name);
    if (std::ranges::find(names, owner) == names.end()) names.push_back(owner);
  }
  return names;
}

Graph quantize(const Graph& graph, const std::map<std::string, ActivationRange>& ranges) {
  return Rewriter(graph, ranges).run();
}

}  // namespace dtrain::exporting

#include "export/layers.h"

#include <array>

#include "core/check.h"

namespace dtrain::exporting {

std::string Layers::conv(const std::string& x, const std::string& name,
                         const catalog::Convolution& conv, const std::string& norm) {
  Weight weight =
      weights_.of_shape(name + ".weight", {conv.out, conv.in / conv.groups, conv.kernel});
  Weight bias = weights_.has(name + ".bias") ? weights_.at(name + ".bias", 1) : Weight{{}, {}};
  if (!norm.empty()) {
    Folded folded = fold_batch_norm(weight, bias,
                                    {.gamma = weights_.at(norm + ".weight", 1),
                                     .beta = weights_.at(norm + ".bias", 1),
                                     .mean = weights_.at(norm + ".running_mean", 1),
                                     .variance = weights_.at(norm + ".running_var", 1)},
                                    name);
    weight = std::move(folded.weight);
    bias = std::move(folded.bias);
  }
  DTRAIN_CHECK(!bias.values.empty(), name);
  const std::vector<int64_t> kernel(weight.shape.begin() + 2, weight.shape.end());
  const size_t dimensions = kernel.size();
  const std::vector<std::string> inputs = {
      x, graph_.floats(name + ".weight", weight.shape, weight.values),
      graph_.floats(name + ".bias", bias.shape, bias.values)};
  return graph_.add("Conv", inputs,
                    {{"kernel_shape", kernel},
                     {"strides", std::vector<int64_t>(dimensions, conv.stride)},
                     {"pads", std::vector<int64_t>(2 * dimensions, conv.padding())},
                     {"dilations", std::vector<int64_t>(dimensions, 1)},
                     {"group", conv.groups}},
                    name);
}

// The weight is stored transposed, [in, out]: quantizing runtimes can scale the channels of that
// form one by one.
std::string Layers::linear(const std::string& x, const std::string& name) {
  const Weight weight = transposed(weights_.at(name + ".weight", 2));
  const Weight& bias = weights_.at(name + ".bias", 1);
  return graph_.add("Gemm",
                    {x, graph_.floats(name + ".weight", weight.shape, weight.values),
                     graph_.floats(name + ".bias", bias.shape, bias.values)},
                    {}, name);
}

std::string Layers::relu6(const std::string& x) {
  return graph_.add("Clip",
                    {x, graph_.floats("zero", {}, {0.0f}), graph_.floats("six", {}, {6.0f})}, {},
                    "relu6");
}

std::string Layers::max_pool(const std::string& x, const catalog::MaxPooling& pool) {
  return graph_.add("MaxPool", {x},
                    {{"kernel_shape", std::vector<int64_t>(2, pool.kernel)},
                     {"strides", std::vector<int64_t>(2, pool.stride)},
                     {"pads", std::vector<int64_t>(4, pool.padding)}});
}

std::string Layers::global_average(const std::string& x) {
  return graph_.add("Flatten", {graph_.add("GlobalAveragePool", {x})}, {{"axis", int64_t{1}}});
}

void Layers::lstm(const std::string& x, const std::string& name, int64_t layer,
                  const std::string& lengths, const std::string& hidden, const std::string& cell,
                  std::vector<std::string> outputs) {
  const Weight& input = weights_.at(str(name, ".weight_ih_l", layer), 2);
  const int64_t width = input.shape[0] / 4;
  const auto reordered = [&](const Weight& weight) {
    // Torch's index of each of ONNX's gates i, o, f, g
    static constexpr std::array<int64_t, 4> kTorchGate = {0, 3, 1, 2};
    std::vector<float> values;
    const auto block = static_cast<std::ptrdiff_t>(weight.values.size() / 4);
    for (const int64_t gate : kTorchGate) {
      const auto begin = weight.values.begin() + gate * block;
      values.insert(values.end(), begin, begin + block);
    }
    return values;
  };
  std::vector<float> biases = reordered(weights_.at(str(name, ".bias_ih_l", layer), 1));
  const std::vector<float> recurrent_bias =
      reordered(weights_.at(str(name, ".bias_hh_l", layer), 1));
  biases.insert(biases.end(), recurrent_bias.begin(), recurrent_bias.end());
  const std::string stem = str(name, ".l", layer);
  // A decoder calls the same layer at each step and needs one copy of its weights.
  const auto once = [&](const std::string& constant, std::vector<int64_t> shape,
                        const std::vector<float>& values) {
    return graph_.has_constant(constant) ? constant
                                         : graph_.floats(constant, std::move(shape), values);
  };
  const std::string w = once(stem + ".W", {1, 4 * width, input.shape[1]}, reordered(input));
  const std::string r = once(stem + ".R", {1, 4 * width, width},
                             reordered(weights_.at(str(name, ".weight_hh_l", layer), 2)));
  const std::string b = once(stem + ".B", {1, 8 * width}, biases);
  std::vector<std::string> inputs = {x, w, r, b, lengths, hidden, cell};
  while (inputs.back().empty()) inputs.pop_back();
  graph_.add_with_outputs("LSTM", std::move(inputs), std::move(outputs), {{"hidden_size", width}});
}

void Layers::lstm(std::string x, const catalog::LstmStack& stack, const std::string& lengths,
                  std::string_view states, std::vector<std::string> outputs) {
  for (int64_t layer = 0; layer + 1 < stack.layers; ++layer) {
    const std::string steps = str(stack.name, layer, states);
    lstm(x, stack.name, layer, lengths, "", "", {steps});
    x = graph_.add("Squeeze", {steps, graph_.integers({1})});
  }
  lstm(x, stack.name, stack.layers - 1, lengths, "", "", std::move(outputs));
}

}  // namespace dtrain::exporting

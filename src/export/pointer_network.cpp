// The pointer network with greedy decoding. Each step's choice is the input of the next step, so
// the graph is unrolled: it has as many steps as the longest set has elements.

#include <limits>

#include "export/layers.h"
#include "export/networks.h"
#include "text/strings.h"

namespace dtrain::exporting {
namespace {

// Weight of a linear layer without bias, as the right factor of a product.
std::string factor(Builder& graph, const Weights& weights, const std::string& name) {
  const Weight weight = transposed(weights.at(name + ".weight", 2));
  return graph.floats(name + ".weight", weight.shape, weight.values);
}

std::vector<std::byte> last_of(int64_t features) {
  std::vector<std::byte> flags(static_cast<size_t>(features));
  flags.back() = std::byte{1};
  return flags;
}

}  // namespace

Graph set_graph(const catalog::SetLayers& net, const Weights& weights, const Metadata& metadata) {
  const int64_t features = required_integer(metadata, "features"),
                longest = required_integer(metadata, "longest");
  Builder graph(required(metadata, "network"));
  Layers layers(graph, weights);
  const std::string elements =
      graph.input("elements", TensorType::kFloat, {"batch", longest, features});
  const std::string lengths = graph.input("lengths", TensorType::kInt64, {"batch"});

  // 6: int32, which LSTM requires
  const std::string count = graph.add("Cast", {lengths}, {{"to", int64_t{6}}}, "count");
  const std::string in_time =
      graph.add("Transpose", {elements}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  const std::string last = str(net.encoder.name, net.encoder.layers - 1);
  const std::string steps = last + "_states";
  std::string hidden = last + "_hidden", cell = last + "_cell";
  layers.lstm(in_time, net.encoder, count, "_states", {steps, hidden, cell});
  const std::string states =
      graph.add("Transpose", {graph.add("Squeeze", {steps, graph.integers({1})})},
                {{"perm", std::vector<int64_t>{1, 0, 2}}});  // [batch, L, hidden]
  const auto attention = [&](const char* layer) {
    return factor(graph, weights, str(net.attention.name, ".", layer));
  };
  const std::string keys = graph.add("MatMul", {states, attention(net.attention.key)}, {}, "keys");
  const std::string query_weight = attention(net.attention.query);
  const std::string v = attention(net.attention.v);

  std::vector<int64_t> numbers(static_cast<size_t>(longest));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
  const std::string positions = graph.constant("positions", TensorType::kInt64, {longest},
                                               bytes_of(std::span<const int64_t>(numbers)));
  const std::string never = graph.floats("never", {}, {std::numeric_limits<float>::lowest()});
  const std::string one = graph.floats("one", {}, {1.0f});
  const std::string is_visited =
      graph.constant("is_visited", TensorType::kBool, {features}, last_of(features));
  const std::string padding = graph.add(
      "Not",
      {graph.add("Less", {positions, graph.add("Unsqueeze", {lengths, graph.integers({1})})})}, {},
      "padding");

  const std::string batch =
      graph.add("Gather", {graph.add("Shape", {elements}), graph.integers({0})});
  std::string row = graph.add(  // [1, batch, features]: zeros before the first choice
      "ConstantOfShape",
      {graph.add("Concat", {graph.integers({1}), batch, graph.integers({features})},
                 {{"axis", int64_t{0}}})});
  std::string closed = padding;
  std::vector<std::string> choices;
  for (int64_t step = 0; step < longest; ++step) {
    const std::string next_hidden = str("hidden_", step), next_cell = str("cell_", step);
    layers.lstm(row, net.decoder, 0, "", hidden, cell, {"", next_hidden, next_cell});
    hidden = next_hidden;
    cell = next_cell;
    const std::string query = graph.add("MatMul", {hidden, query_weight});  // [1, batch, hidden]
    const std::string asked =
        graph.add("Transpose", {query}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
    const std::string heard =
        graph.add("MatMul", {graph.add("Tanh", {graph.add("Add", {keys, asked})}), v});
    const std::string scores = graph.add(
        "Where", {closed, never, graph.add("Squeeze", {heard, graph.integers({2})})}, {}, "scores");
    const std::string choice =
        // [batch, 1]
        graph.add("ArgMax", {scores}, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}}, "choice");
    choices.push_back(choice);
    if (step + 1 == longest) break;
    closed = graph.add("Or", {closed, graph.add("Equal", {positions, choice})}, {}, "closed");
    const std::string chosen =
        graph.add("GatherND", {elements, choice}, {{"batch_dims", int64_t{1}}});
    row = graph.add("Unsqueeze",
                    {graph.add("Where", {is_visited, one, chosen}), graph.integers({0})});
  }
  const std::string all =
      choices.size() == 1 ? choices[0] : graph.add("Concat", choices, {{"axis", int64_t{1}}});
  const std::string order = graph.add("Where", {padding, graph.integer(-1), all});
  weights.check_all_used();
  graph.output(order, "order", TensorType::kInt64, {"batch", longest});
  return graph.finish(metadata);
}

}  // namespace dtrain::exporting

// The sequence classifier. The sequences of a batch differ in length: positions beyond a length are
// zeroed before each convolution and skipped by the LSTM, so a sequence's output depends neither on
// its batch nor on its padding.

#include "export/layers.h"
#include "export/networks.h"
#include "text/strings.h"

namespace dtrain::exporting {
namespace {

// x [batch, C, time] with zeros beyond each sequence's length.
std::string zeroed_beyond(Builder& graph, const std::string& x, const std::string& lengths) {
  const std::string time =
      graph.add("Gather", {graph.add("Shape", {x}), graph.integer(2)}, {{"axis", int64_t{0}}});
  const std::string positions = graph.add("Range", {graph.integer(0), time, graph.integer(1)});
  const std::string inside = graph.add(
      "Less",
      {positions, graph.add("Unsqueeze", {lengths, graph.integers({1})})});  // [batch, time]
  const std::string zero = graph.has_constant("zero") ? "zero" : graph.floats("zero", {}, {0.0f});
  return graph.add("Where", {graph.add("Unsqueeze", {inside, graph.integers({1})}), x, zero});
}

}  // namespace

Graph sequence_graph(const catalog::SequenceLayers& net, const Weights& weights,
                     const Metadata& metadata) {
  const int64_t features = required_integer(metadata, "features");
  Builder graph(required(metadata, "network"));
  Layers layers(graph, weights);
  const std::string sequences =
      graph.input("sequences", TensorType::kFloat, {"batch", "time", features});
  const std::string lengths = graph.input("lengths", TensorType::kInt64, {"batch"});

  std::string x = graph.add("Transpose", {sequences}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  x = layers.relu(layers.conv(zeroed_beyond(graph, x, lengths), "conv1", net.first, "bn1"));
  x = layers.relu(layers.conv(zeroed_beyond(graph, x, lengths), "conv2", net.second, "bn2"));
  // The stride of 2 leaves ceil(length / 2) positions.
  const std::string half = graph.add(
      "Div", {graph.add("Add", {lengths, graph.integer(1)}), graph.integer(2)}, {}, "half_lengths");
  const std::string steps =
      graph.add("Cast", {half}, {{"to", int64_t{6}}}, "steps");  // 6: int32, which LSTM requires
  x = graph.add("Transpose", {x},
                {{"perm", std::vector<int64_t>{2, 0, 1}}});  // [time, batch, channels]
  const std::string last = str(net.lstm.name, net.lstm.layers - 1, "_last");
  layers.lstm(x, net.lstm, steps, "_steps", {"", last});
  const std::string logits = layers.linear(graph.add("Squeeze", {last, graph.integers({0})}), "fc");

  weights.check_all_used({"reconstruct."});  // used in training only
  graph.output(logits, "logits", TensorType::kFloat, {"batch", layers.outputs_of("fc")});
  return graph.finish(metadata);
}

}  // namespace dtrain::exporting

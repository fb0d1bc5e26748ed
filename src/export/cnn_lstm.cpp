// The sequence classifier. The sequences of a batch differ in length: positions beyond a length are
// zeroed before each convolution and skipped by the LSTM, so a sequence's output depends neither on
// its batch nor on its padding.

#include "core/strings.h"
#include "export/layers.h"
#include "export/networks.h"

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
      graph.input("sequences", Element::kFloat, {"batch", "time", features});
  const std::string lengths = graph.input("lengths", Element::kInt64, {"batch"});

  std::string x = graph.add("Transpose", {sequences}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  std::string valid = lengths;
  for (size_t i = 0; i < net.convolutions.size(); ++i) {
    const catalog::Convolution& conv = net.convolutions[i];
    x = layers.relu(
        layers.conv(zeroed_beyond(graph, x, valid), str("conv", i + 1), conv, str("bn", i + 1)));
    if (conv.stride == 1) continue;  // a stride of n leaves ceil(length / n) positions
    const std::string more = graph.add("Add", {valid, graph.integer(conv.stride - 1)});
    valid = graph.add("Div", {more, graph.integer(conv.stride)}, {}, "half_lengths");
  }
  // 6: int32, which LSTM requires
  const std::string steps = graph.add("Cast", {valid}, {{"to", int64_t{6}}}, "steps");
  // [time, batch, channels]
  x = graph.add("Transpose", {x}, {{"perm", std::vector<int64_t>{2, 0, 1}}});
  for (int64_t i = 0; i + 1 < net.lstm_layers; ++i) {
    const std::string states = str("lstm", i, "_steps");
    layers.lstm(x, "lstm", i, steps, "", "", {states});
    x = graph.add("Squeeze", {states, graph.integers({1})});
  }
  const std::string last = str("lstm", net.lstm_layers - 1, "_last");
  layers.lstm(x, "lstm", net.lstm_layers - 1, steps, "", "", {"", last});
  const std::string logits = layers.linear(graph.add("Squeeze", {last, graph.integers({0})}), "fc");

  weights.check_all_used({"reconstruct."});  // used in training only
  graph.output(logits, "logits", Element::kFloat, {"batch", layers.outputs_of("fc")});
  return graph.finish(metadata);
}

}  // namespace dtrain::exporting

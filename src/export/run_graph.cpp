#include "export/run_graph.h"

#include "core/check.h"

namespace dtrain::exporting {
namespace {

at::ScalarType type_of(TensorType element) {
  // In the order of TensorType
  constexpr at::ScalarType kTypes[] = {at::kFloat, at::kLong, at::kInt,
                                       at::kChar,  at::kByte, at::kBool};
  static_assert(std::size(kTypes) == static_cast<size_t>(TensorType::kCount));
  return kTypes[static_cast<size_t>(element)];
}

at::Tensor tensor_of(const Constant& constant) {
  const at::Tensor view =
      at::from_blob(const_cast<std::byte*>(constant.bytes.data()), constant.shape,
                    at::TensorOptions(type_of(constant.element)));
  return view.clone();
}

// ONNX pads [top, left, bottom, right]; the networks here pad both sides equally.
std::vector<int64_t> symmetric_padding(const Node& node) {
  const std::vector<int64_t> pads = node.integers("pads", {0, 0, 0, 0});
  DTRAIN_CHECK(pads.size() == 4 && pads[0] == pads[2] && pads[1] == pads[3], node.outputs[0]);
  return {pads[0], pads[1]};
}

at::Tensor dequantized(const Node& node, const at::Tensor& integers, const at::Tensor& scale,
                       const at::Tensor& zero) {
  if (scale.dim() == 0) {
    const at::Tensor shifted =
        zero.defined() ? integers.to(at::kFloat) - zero.to(at::kFloat) : integers.to(at::kFloat);
    return shifted * scale;
  }
  std::vector<int64_t> shape(static_cast<size_t>(integers.dim()), 1);
  shape[static_cast<size_t>(node.integer("axis", 1))] = -1;
  return integers.to(at::kFloat) * scale.reshape(shape);  // per channel: symmetric
}

at::Tensor evaluate(const Node& node, const std::vector<at::Tensor>& in) {
  const std::string& op = node.op;
  if (op == "Conv") {
    return at::conv2d(in[0], in[1], in[2], node.integers("strides", {1, 1}),
                      symmetric_padding(node), {1, 1}, node.integer("group", 1));
  }
  if (op == "Relu") return at::relu(in[0]);
  if (op == "Clip") return at::clamp(in[0], in[1], in[2]);
  if (op == "Add") return in[0] + in[1];
  if (op == "MaxPool") {
    return at::max_pool2d(in[0], node.integers("kernel_shape", {}), node.integers("strides", {}),
                          symmetric_padding(node));
  }
  if (op == "GlobalAveragePool") return in[0].mean({2, 3}, /*keepdim=*/true);
  if (op == "Flatten") return in[0].flatten(1);
  if (op == "Gemm") return at::addmm(in[2], in[0], in[1]);
  if (op == "QuantizeLinear") {
    return (at::round(in[0] / in[1]) + in[2].to(at::kFloat)).clamp(0, 255).to(at::kByte);
  }
  if (op == "DequantizeLinear")
    return dequantized(node, in[0], in[1], in.size() > 2 ? in[2] : at::Tensor());
  throw Error(str("internal error: operator ", op, " is not one of a convolutional network"));
}

}  // namespace

GraphRunner::GraphRunner(const Graph& graph) : graph_(graph) {
  DTRAIN_CHECK(graph.inputs.size() == 1 && graph.outputs.size() == 1, graph.name);
  for (const Constant& constant : graph.constants) constants_[constant.name] = tensor_of(constant);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (const std::string& input : node.inputs) last_reader_[input] = i;
  }
}

at::Tensor GraphRunner::run(const at::Tensor& input, const Observe& observe) const {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> values = {{graph_.inputs[0].name, input}};
  if (observe) observe(graph_.inputs[0].name, input);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    std::vector<at::Tensor> in;
    for (const std::string& name : node.inputs) {
      const auto constant = constants_.find(name);
      in.push_back(constant != constants_.end() ? constant->second : values.at(name));
    }
    at::Tensor out = evaluate(node, in);
    if (observe) observe(node.outputs[0], out);
    values[node.outputs[0]] = std::move(out);
    for (const std::string& name : node.inputs) {
      if (last_reader_.at(name) == i) values.erase(name);
    }
  }
  return values.at(graph_.outputs[0].name);
}

}  // namespace dtrain::exporting

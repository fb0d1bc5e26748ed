#include "export/onnx_file.h"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include "core/check.h"

namespace dtrain::exporting {
namespace {

constexpr int64_t kMaxMessageBytes = (int64_t{1} << 31) - 1;
constexpr int64_t kMargin = int64_t{1} << 24;  // for everything but the bytes of constants

onnx::TensorProto::DataType type_of(TensorType element) {
  using Proto = onnx::TensorProto;
  // In the order of TensorType
  constexpr Proto::DataType kTypes[] = {Proto::FLOAT, Proto::INT64, Proto::INT32,
                                        Proto::INT8,  Proto::UINT8, Proto::BOOL};
  static_assert(std::size(kTypes) == static_cast<size_t>(TensorType::kCount));
  return kTypes[static_cast<size_t>(element)];
}

void fill(onnx::ValueInfoProto* proto, const Port& port) {
  proto->set_name(port.name);
  onnx::TypeProto::Tensor* type = proto->mutable_type()->mutable_tensor_type();
  type->set_elem_type(type_of(port.element));
  for (const Dimension& dimension : port.shape) {
    onnx::TensorShapeProto::Dimension* out = type->mutable_shape()->add_dim();
    if (const auto* size = std::get_if<int64_t>(&dimension)) {
      out->set_dim_value(*size);
    } else {
      out->set_dim_param(std::get<std::string>(dimension));
    }
  }
}

void fill(onnx::AttributeProto* proto, const std::string& name, const Attribute& attribute) {
  proto->set_name(name);
  if (const auto* integer = std::get_if<int64_t>(&attribute)) {
    proto->set_type(onnx::AttributeProto::INT);
    proto->set_i(*integer);
  } else if (const auto* real = std::get_if<float>(&attribute)) {
    proto->set_type(onnx::AttributeProto::FLOAT);
    proto->set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&attribute)) {
    proto->set_type(onnx::AttributeProto::STRING);
    proto->set_s(*text);
  } else {
    proto->set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : std::get<std::vector<int64_t>>(attribute)) proto->add_ints(value);
  }
}

void fill(onnx::NodeProto* proto, const Node& node) {
  proto->set_op_type(node.op);
  proto->set_name(
      str(node.op, "/", node.outputs[0].empty() ? node.outputs.back() : node.outputs[0]));
  for (const std::string& name : node.inputs) proto->add_input(name);
  for (const std::string& name : node.outputs) proto->add_output(name);
  for (const auto& [name, attribute] : node.attributes)
    fill(proto->add_attribute(), name, attribute);
}

void fill(onnx::TensorProto* proto, const Constant& constant) {
  proto->set_name(constant.name);
  proto->set_data_type(type_of(constant.element));
  for (const int64_t n : constant.shape) proto->add_dims(n);
  proto->set_raw_data(constant.bytes.data(), constant.bytes.size());
}

}  // namespace

void check_onnx_size(int64_t bytes) {
  if (bytes > kMaxMessageBytes - kMargin) {
    throw OutputError(
        str("the network has ", human_bytes(static_cast<double>(bytes)),
            " of weights, but an ONNX file holds at most 2 GiB: use --format safetensors"));
  }
}

std::string to_onnx(const Graph& graph) {
  int64_t bytes = 0;
  for (const Constant& constant : graph.constants)
    bytes += static_cast<int64_t>(constant.bytes.size());
  check_onnx_size(bytes);

  onnx::ModelProto model;
  model.set_ir_version(kOnnxIrVersion);
  model.set_producer_name("dtrain");
  onnx::OperatorSetIdProto* opset = model.add_opset_import();
  opset->set_domain("");
  opset->set_version(kOnnxOpset);
  for (const auto& [key, value] : graph.metadata) {
    onnx::StringStringEntryProto* entry = model.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  onnx::GraphProto* proto = model.mutable_graph();
  proto->set_name(graph.name);
  for (const Port& port : graph.inputs) fill(proto->add_input(), port);
  for (const Port& port : graph.outputs) fill(proto->add_output(), port);
  for (const Node& node : graph.nodes) fill(proto->add_node(), node);
  for (const Constant& constant : graph.constants) fill(proto->add_initializer(), constant);
  try {
    onnx::checker::check_model(model);
    // Also stores the shape of every value in the file, for viewers.
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                       {/*check_type=*/true,
                                        /*strict_mode=*/1,
                                        /*data_propagation=*/false});
  } catch (const std::exception& e) {
    throw Error(str("internal error: ONNX rejects the graph of ", graph.name, ": ", e.what()));
  }
  std::string out;
  DTRAIN_CHECK(model.SerializeToString(&out), graph.name);
  return out;
}

}  // namespace dtrain::exporting

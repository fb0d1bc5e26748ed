#pragma once

// A network as data: named constants and the operators that connect them, with the operator names
// and meanings of ONNX (opset 13), so that writing the file is a plain translation. It depends on
// neither torch nor an ONNX library: networks are built from the tensors of a checkpoint, quantized
// and tested without them.
//
// Thread-safety: plain values.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace dtrain::exporting {

enum class TensorType { kFloat, kInt64, kInt32, kInt8, kUint8, kBool, kCount };
int64_t element_bytes(TensorType);

struct Constant {
  std::string name;
  TensorType element = TensorType::kFloat;
  std::vector<int64_t> shape;    // C order
  std::vector<std::byte> bytes;  // little endian
};

template <typename T>
std::vector<std::byte> bytes_of(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}
std::span<const float> floats_of(const Constant&);  // requires TensorType::kFloat

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>>;

struct Node {
  std::string op;
  std::vector<std::string> inputs;  // "": an optional input that is absent
  std::vector<std::string> outputs;
  std::map<std::string, Attribute> attributes;

  int64_t integer(const std::string& attribute, int64_t fallback) const;
  std::vector<int64_t> integers(const std::string& attribute, std::vector<int64_t> fallback) const;
};

// A name: any size, the same wherever the name occurs
using Dimension = std::variant<int64_t, std::string>;

struct Port {
  std::string name;
  TensorType element = TensorType::kFloat;
  std::vector<Dimension> shape;
};

struct Graph {
  std::string name;
  std::vector<Port> inputs, outputs;
  std::vector<Constant> constants;
  std::vector<Node> nodes;  // sorted in topological order
  // From the checkpoint: what a user of the file must know
  std::map<std::string, std::string> metadata;

  const Constant* constant(const std::string& name) const;  // nullptr if there is none
};

// Builds a graph node by node. Each call returns the name of what it added.
class Builder {
 public:
  explicit Builder(std::string name) { graph_.name = std::move(name); }

  std::string input(const std::string& name, TensorType, std::vector<Dimension> shape);
  std::string constant(const std::string& name, TensorType, std::vector<int64_t> shape,
                       std::vector<std::byte> bytes);
  std::string floats(const std::string& name, std::vector<int64_t> shape,
                     const std::vector<float>& values);
  std::string integers(const std::vector<int64_t>& values);  // [values.size()]
  std::string integer(int64_t value);                        // a scalar
  // The output is named `name`, or after the operator if `name` is empty.
  std::string add(const std::string& op, std::vector<std::string> inputs,
                  std::map<std::string, Attribute> = {}, const std::string& name = "");
  // For several outputs; those with an empty name are absent.
  void add_with_outputs(const std::string& op, std::vector<std::string> inputs,
                        std::vector<std::string> outputs, std::map<std::string, Attribute> = {});
  // Renames `value` to `name` and makes it an output of the graph.
  void output(const std::string& value, const std::string& name, TensorType,
              std::vector<Dimension> shape);
  bool has_constant(const std::string& name) const { return graph_.constant(name) != nullptr; }
  Graph finish(std::map<std::string, std::string> metadata);

 private:
  std::string fresh(const std::string& stem);

  Graph graph_;
  std::map<std::string, int64_t> used_;       // how often each stem was used
  std::map<std::string, std::string> known_;  // names of integer constants, by value
};

}  // namespace dtrain::exporting

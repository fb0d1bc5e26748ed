#pragma once

// A network as data: named constants and the operators that connect them, with ONNX's own operator names and meanings
// (opset 13), so that writing the file is a translation without thought. Knows no torch and no ONNX library: networks
// are built from the tensors of a checkpoint, quantised and tested without either. Thread-safety: plain values.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace dtrain::exporting {

enum class Element { kFloat, kInt64, kInt32, kInt8, kUint8, kBool };
int64_t element_bytes(Element);

struct Constant {
  std::string name;
  Element element = Element::kFloat;
  std::vector<int64_t> shape;    // C order
  std::vector<std::byte> bytes;  // little endian
};

template <typename T>
std::vector<std::byte> bytes_of(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}
std::span<const float> floats_of(const Constant&);  // requires Element::kFloat

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>>;

struct Node {
  std::string op;
  std::vector<std::string> inputs;  // "": an optional one that is left out
  std::vector<std::string> outputs;
  std::map<std::string, Attribute> attributes;

  int64_t integer(const std::string& attribute, int64_t otherwise) const;
  std::vector<int64_t> integers(const std::string& attribute, std::vector<int64_t> otherwise) const;
};

using Dimension = std::variant<int64_t, std::string>;  // a name: any size, the same wherever the name stands

struct Port {
  std::string name;
  Element element = Element::kFloat;
  std::vector<Dimension> shape;
};

struct Graph {
  std::string name;
  std::vector<Port> inputs, outputs;
  std::vector<Constant> constants;
  std::vector<Node> nodes;                      // each after those whose outputs it reads
  std::map<std::string, std::string> metadata;  // of the checkpoint: what a user of the file must know

  const Constant* constant(const std::string& name) const;  // nullptr: there is none
};

// A new graph by calls that return the name of what they made.
class Builder {
 public:
  explicit Builder(std::string name) { graph_.name = std::move(name); }

  std::string input(const std::string& name, Element, std::vector<Dimension> shape);
  std::string constant(const std::string& name, Element, std::vector<int64_t> shape, std::vector<std::byte> bytes);
  std::string floats(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values);
  std::string integers(const std::vector<int64_t>& values);  // [values.size()]
  std::string integer(int64_t value);                        // a scalar
  // The first output is named `name`, or after the operator if that is empty.
  std::string add(const std::string& op, std::vector<std::string> inputs, std::map<std::string, Attribute> = {},
                  const std::string& name = "");
  // Several outputs; those with an empty name are left out.
  void add_with_outputs(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                        std::map<std::string, Attribute> = {});
  // Gives `value` the name `name` as an output of the graph.
  void output(const std::string& value, const std::string& name, Element, std::vector<Dimension> shape);
  bool has_constant(const std::string& name) const { return graph_.constant(name) != nullptr; }
  Graph finish(std::map<std::string, std::string> metadata);

 private:
  std::string fresh(const std::string& stem);

  Graph graph_;
  std::map<std::string, int64_t> used_;       // names given so far, by stem
  std::map<std::string, std::string> known_;  // integer constants made so far
};

}  // namespace dtrain::exporting

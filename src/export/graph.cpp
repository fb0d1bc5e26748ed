#include "export/graph.h"

#include <algorithm>
#include <cctype>

#include "core/check.h"

namespace dtrain::exporting {

int64_t element_bytes(TensorType element) {
  // In the order of TensorType
  constexpr int64_t kBytes[] = {4, 8, 4, 1, 1, 1};
  static_assert(std::size(kBytes) == static_cast<size_t>(TensorType::kCount));
  return kBytes[static_cast<size_t>(element)];
}

std::span<const float> floats_of(const Constant& constant) {
  DTRAIN_CHECK(constant.element == TensorType::kFloat, constant.name);
  return {reinterpret_cast<const float*>(constant.bytes.data()),
          constant.bytes.size() / sizeof(float)};
}

int64_t Node::integer(const std::string& attribute, int64_t fallback) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? fallback : std::get<int64_t>(found->second);
}

std::vector<int64_t> Node::integers(const std::string& attribute,
                                    std::vector<int64_t> fallback) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? std::move(fallback)
                                   : std::get<std::vector<int64_t>>(found->second);
}

const Constant* Graph::constant(const std::string& wanted) const {
  const auto found = std::find_if(constants.begin(), constants.end(),
                                  [&](const Constant& c) { return c.name == wanted; });
  return found == constants.end() ? nullptr : &*found;
}

std::string Builder::fresh(const std::string& stem) {
  const int64_t before = used_[stem]++;
  return before == 0 ? stem : str(stem, "_", before);
}

std::string Builder::input(const std::string& name, TensorType element,
                           std::vector<Dimension> shape) {
  graph_.inputs.push_back({fresh(name), element, std::move(shape)});
  return graph_.inputs.back().name;
}

std::string Builder::constant(const std::string& name, TensorType element,
                              std::vector<int64_t> shape, std::vector<std::byte> bytes) {
  int64_t elements = 1;
  for (const int64_t n : shape) elements *= n;
  DTRAIN_CHECK(static_cast<int64_t>(bytes.size()) == elements * element_bytes(element), name);
  graph_.constants.push_back({fresh(name), element, std::move(shape), std::move(bytes)});
  return graph_.constants.back().name;
}

std::string Builder::floats(const std::string& name, std::vector<int64_t> shape,
                            const std::vector<float>& values) {
  return constant(name, TensorType::kFloat, std::move(shape), bytes_of(std::span(values)));
}

std::string Builder::integers(const std::vector<int64_t>& values) {
  std::string stem = "integers";
  for (const int64_t value : values) stem += str("_", value);
  if (const auto found = known_.find(stem); found != known_.end()) return found->second;
  return known_[stem] = constant(stem, TensorType::kInt64, {static_cast<int64_t>(values.size())},
                                 bytes_of(std::span(values)));
}

std::string Builder::integer(int64_t value) {
  const std::string stem = str("integer_", value);
  if (const auto found = known_.find(stem); found != known_.end()) return found->second;
  return known_[stem] =
             constant(stem, TensorType::kInt64, {}, bytes_of(std::span<const int64_t>(&value, 1)));
}

std::string Builder::add(const std::string& op, std::vector<std::string> inputs,
                         std::map<std::string, Attribute> attributes, const std::string& name) {
  std::string stem = name;
  if (stem.empty()) {
    for (const char c : op) stem += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  graph_.nodes.push_back({op, std::move(inputs), {fresh(stem)}, std::move(attributes)});
  return graph_.nodes.back().outputs[0];
}

void Builder::add_with_outputs(const std::string& op, std::vector<std::string> inputs,
                               std::vector<std::string> outputs,
                               std::map<std::string, Attribute> attributes) {
  for (std::string& name : outputs) {
    if (!name.empty()) DTRAIN_CHECK(fresh(name) == name, name);
  }
  graph_.nodes.push_back({op, std::move(inputs), std::move(outputs), std::move(attributes)});
}

void Builder::output(const std::string& value, const std::string& name, TensorType element,
                     std::vector<Dimension> shape) {
  DTRAIN_CHECK(fresh(name) == name, name);
  for (Node& node : graph_.nodes) {
    std::replace(node.inputs.begin(), node.inputs.end(), value, name);
    std::replace(node.outputs.begin(), node.outputs.end(), value, name);
  }
  graph_.outputs.push_back({name, element, std::move(shape)});
}

Graph Builder::finish(std::map<std::string, std::string> metadata) {
  graph_.metadata = std::move(metadata);
  return std::move(graph_);
}

}  // namespace dtrain::exporting

#include "export/run_graph.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "export/int8.h"
#include "export/quantize.h"

namespace dtrain::exporting {
namespace {

// Two convolutions with a residual connection, as in the networks.
Graph network() {
  at::manual_seed(3);
  Builder graph("small");
  const auto tensor = [&](const std::string& name, const std::vector<int64_t>& shape) {
    const at::Tensor values = at::randn(shape) * 0.4;
    return graph.floats(name, shape,
                        {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()});
  };
  graph.input("images", TensorType::kFloat, {"batch", int64_t{3}, int64_t{8}, int64_t{8}});
  graph.add("Conv", {"images", tensor("a.weight", {4, 3, 3, 3}), tensor("a.bias", {4})},
            {{"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}},
            "a");
  graph.add("Relu", {"a"}, {}, "relu");
  graph.add("Conv", {"relu", tensor("b.weight", {4, 1, 3, 3}), tensor("b.bias", {4})},
            {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"group", int64_t{4}}}, "b");
  graph.add("Add", {"b", "relu"}, {}, "sum");
  graph.add("Flatten", {graph.add("GlobalAveragePool", {"sum"}, {}, "average")},
            {{"axis", int64_t{1}}}, "flat");
  graph.add("Gemm", {"flat", tensor("fc.weight", {4, 5}), tensor("fc.bias", {5})}, {}, "fc");
  graph.output("fc", "logits", TensorType::kFloat, {"batch", int64_t{5}});
  return graph.finish({});
}

at::Tensor constant(const Graph& graph, const std::string& name) {
  const Constant* found = graph.constant(name);
  return at::from_blob(const_cast<std::byte*>(found->bytes.data()), found->shape, at::kFloat)
      .clone();
}

TEST(GraphRunner, ComputesTheOperators) {
  const Graph graph = network();
  const at::Tensor x = at::randn({2, 3, 8, 8});
  const auto c = [&](const std::string& name) { return constant(graph, name); };
  const at::Tensor a = at::conv2d(x, c("a.weight"), c("a.bias"), 2, 1).relu();
  const at::Tensor b = at::conv2d(a, c("b.weight"), c("b.bias"), 1, 1, 1, 4) + a;
  const at::Tensor expected = b.mean({2, 3}).matmul(c("fc.weight")) + c("fc.bias");
  std::vector<std::string> seen;
  const at::Tensor actual = GraphRunner(graph).run(
      x, [&](const std::string& name, const at::Tensor&) { seen.push_back(name); });
  EXPECT_TRUE(at::allclose(actual, expected, 1e-5, 1e-6));
  EXPECT_EQ(seen, (std::vector<std::string>{"images", "a", "relu", "b", "sum", "average", "flat",
                                            "logits"}));
}

TEST(GraphRunner, RejectsUnknownOperators) {
  Builder graph("odd");
  graph.input("x", TensorType::kFloat, {"batch"});
  graph.output(graph.add("Erf", {"x"}), "y", TensorType::kFloat, {"batch"});
  const Graph odd = graph.finish({});
  EXPECT_THROW(GraphRunner(odd).run(at::ones({1})), Error);
}

TEST(ToInt8, IsCloseToFloat32AndScoresBothKindsOfTargets) {
  const Graph graph = network();
  const at::Tensor x = at::randn({64, 3, 8, 8});
  const at::Tensor outputs = GraphRunner(graph).run(x);
  const Batches classes = [&](const Visit& visit) {
    visit(x.narrow(0, 0, 40), outputs.narrow(0, 0, 40).argmax(1));
    visit(x.narrow(0, 40, 24), outputs.narrow(0, 40, 24).argmax(1));
  };
  const Int8Graph int8 = to_int8(graph, classes);
  EXPECT_GT(int8.difference_rms, 0);
  EXPECT_LT(int8.difference_rms, 0.03 * int8.output_rms);
  const Score exact = score(graph, classes, 1);
  EXPECT_EQ(exact.name, "top-1");
  EXPECT_EQ(exact.samples, 64);
  EXPECT_DOUBLE_EQ(exact.value, 100);
  const Batches shifted = [&](const Visit& visit) { visit(x, outputs * 30 + 2); };
  const Score error = score(graph, shifted, 30);
  EXPECT_EQ(error.name, "mean absolute error");
  EXPECT_NEAR(error.value, 2, 1e-4);
}

TEST(ToInt8, RejectsActivationsThatAreNotFinite) {
  const Graph graph = network();
  const Batches broken = [&](const Visit& visit) {
    visit(at::full({1, 3, 8, 8}, INFINITY), at::zeros({1}, at::kLong));
  };
  EXPECT_THROW(to_int8(graph, broken), NumericsError);
}

}  // namespace
}  // namespace dtrain::exporting

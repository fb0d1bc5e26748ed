#include "export/onnx_file.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/expect_error.h"

namespace dtrain::exporting {
namespace {

using testing::expect_error;
TEST(OnnxFile, HoldsAtMostAProtobufMessage) {
  check_onnx_size(int64_t{1} << 30);
  expect_error<OutputError>([] { check_onnx_size(int64_t{1} << 31); }, {"2.0 GiB", "safetensors"});
}

TEST(OnnxFile, HoldsWhatTheGraphHolds) {
  Builder graph("tiny");
  graph.input("x", TensorType::kFloat, {"batch", int64_t{2}});
  const std::string sum = graph.add("Add", {"x", graph.floats("shift", {2}, {1, 2})});
  graph.output(sum, "y", TensorType::kFloat, {"batch", int64_t{2}});
  const std::string bytes = to_onnx(graph.finish({{"mean", "0.5,0.25,0.125"}}));
  for (const char* text : {"dtrain", "shift", "batch", "mean", "0.5,0.25,0.125"}) {
    EXPECT_NE(bytes.find(text), std::string::npos) << text;
  }
}

TEST(OnnxFile, RejectsAnInvalidGraph) {
  Builder dangling("dangling");
  dangling.input("x", TensorType::kFloat, {"batch", int64_t{2}});
  dangling.output(dangling.add("Add", {"x", "nobody"}), "y", TensorType::kFloat,
                  {"batch", int64_t{2}});
  expect_error<Error>([&] { to_onnx(dangling.finish({})); }, {"ONNX rejects", "nobody"});

  Builder misshapen("misshapen");
  misshapen.input("x", TensorType::kFloat, {"batch", int64_t{2}});
  const std::string w = misshapen.floats("w", {3, 1}, {1, 2, 3}),
                    b = misshapen.floats("b", {1}, {0});
  misshapen.output(misshapen.add("Gemm", {"x", w, b}), "y", TensorType::kFloat,
                   {"batch", int64_t{5}});
  expect_error<Error>([&] { to_onnx(misshapen.finish({})); },
                      {"ONNX rejects the graph of misshapen"});
}

}  // namespace
}  // namespace dtrain::exporting

#include "export/networks.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/expect_error.h"

namespace dtrain::exporting {
namespace {

using testing::expect_error;
const Metadata kHeadpose = {
    {"task", "headpose"}, {"network", "headpose_cnn"}, {"image_size", "32"}};

TEST(Networks, AreChosenByTheMetadata) {
  const Weights nothing({}, "model.safetensors");
  expect_error<CheckpointError>(
      [&] {
        build_graph(nothing, {{"task", "headpose"}});
      },
      {"'network'"});
  expect_error<CheckpointError>([&] { build_graph(nothing, kHeadpose); },
                                {"model.safetensors", "'features.0.0.weight'"});
  Metadata no_size = kHeadpose;
  no_size["image_size"] = "32x32";
  expect_error<CheckpointError>([&] { build_graph(nothing, no_size); },
                                {"'32x32'", "'image_size'"});
}

TEST(Networks, WithoutAGraphSayWhatToDoInstead) {
  const Weights nothing({}, "model.safetensors");
  expect_error<UsageError>(
      [&] {
        build_graph(nothing, {{"task", "module"}, {"network", "torchscript"}});
      },
      {"TorchScript", "--format torchscript", "torch.onnx.export"});
}

TEST(Networks, SayWhyTheyHaveNoInt8Form) {
  EXPECT_EQ(why_not_int8("resnet50"), "");
  EXPECT_NE(why_not_int8("cnn_lstm").find("recurrent"), std::string::npos);
  EXPECT_NE(why_not_int8("pointer_network").find("--format onnx"), std::string::npos);
  EXPECT_NE(why_not_int8("torchscript").find("--format torchscript"), std::string::npos);
}

}  // namespace
}  // namespace dtrain::exporting

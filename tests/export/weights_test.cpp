#include "export/weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/safetensors_header.h"
#include "core/error.h"
#include "os/file_system.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/strings.h"

namespace dtrain::exporting {
namespace {

using testing::expect_error;
using testing::TempDir;
Weight weight(std::vector<int64_t> shape, std::vector<float> values) {
  return {std::move(shape), std::move(values)};
}

TEST(FoldBatchNorm, EqualsTheNormOfTheConvolution) {
  const Weight kernel = weight({2, 1, 1, 1}, {2, -3}), bias = weight({2}, {1, 4});
  const Weight gamma = weight({2}, {0.5f, 2}), beta = weight({2}, {0.25f, -1}),
               mean = weight({2}, {3, -2});
  const Weight variance = weight({2}, {4, 0.25f});
  const Folded folded = fold_batch_norm(kernel, bias, {gamma, beta, mean, variance, 0}, "conv");
  // (w·x + b - mean) / sqrt(variance) · gamma + beta
  EXPECT_FLOAT_EQ(folded.weight.values[0], 2 * 0.25f);
  EXPECT_FLOAT_EQ(folded.bias.values[0], (1 - 3) * 0.25f + 0.25f);
  EXPECT_FLOAT_EQ(folded.weight.values[1], -3 * 4.0f);
  EXPECT_FLOAT_EQ(folded.bias.values[1], (4 + 2) * 4.0f - 1);
  EXPECT_EQ(folded.weight.shape, kernel.shape);
}

TEST(FoldBatchNorm, UsesEpsilonAndTreatsAMissingBiasAsZero) {
  const Weight kernel = weight({1, 1, 1}, {1}), none, one = weight({1}, {1}),
               zero = weight({1}, {0});
  const Folded folded = fold_batch_norm(kernel, none, {one, zero, one, zero, 1e-2}, "conv");
  EXPECT_FLOAT_EQ(folded.weight.values[0], 10);
  EXPECT_FLOAT_EQ(folded.bias.values[0], -10);
}

TEST(FoldBatchNorm, RejectsOtherChannels) {
  const Weight kernel = weight({2, 1, 1, 1}, {1, 1}), none, one = weight({1}, {1});
  expect_error<CheckpointError>(
      [&] {
        fold_batch_norm(kernel, none, {one, one, one, one}, "conv7");
      },
      {"conv7", "2 channels", "batch norm of 1"});
}

TEST(Weights, NameMissingMisshapenAndUnusedTensors) {
  const Weights weights({{"fc.weight", weight({1, 1}, {1})}, {"other.bias", weight({1}, {1})}},
                        "a.safetensors");
  expect_error<CheckpointError>([&] { weights.at("fc.bias"); }, {"a.safetensors", "'fc.bias'"});
  expect_error<CheckpointError>([&] { weights.at("fc.weight", 4); },
                                {"'fc.weight'", "2 dimensions", "has 4"});
  weights.at("fc.weight", 2);
  EXPECT_EQ(weights.of_shape("fc.weight", {1, 0}).values.size(), 1u);
  for (const std::vector<int64_t>& other : {std::vector<int64_t>{2}, {1, 3}, {1, 1, 3}}) {
    expect_error<CheckpointError>([&] { weights.of_shape("fc.weight", other); },
                                  {"a.safetensors", "'fc.weight'", "shape [1, 1]", "begins with"});
  }
  expect_error<CheckpointError>([&] { weights.check_all_used(); },
                                {"a.safetensors", "'other.bias'"});
  weights.check_all_used({"other."});
}

TEST(ReadWeights, ReadsEveryFloatingTypeAndSkipsCounters) {
  const TempDir folder;
  std::string data;
  const auto append = [&](auto value) {
    data.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  append(1.5);               // a: F64
  append(-2.25f);            // b: F32
  append(uint16_t{0x3E00});  // c: F16 1.5
  append(uint16_t{0x0001});  // c: F16 2^-24
  append(uint16_t{0xC020});  // d: BF16 -2.5
  append(int64_t{7});        // e: I64
  const std::string header =
      R"({"__metadata__":{"network":"x"},"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"c":{"dtype":"F16","shape":[2],)"
      R"("data_offsets":[12,16]},)"
      R"("d":{"dtype":"BF16","shape":[],"data_offsets":[16,18]},"e":{"dtype":"I64","shape":[],)"
      R"("data_offsets":[18,26]}})";
  const uint64_t length = header.size();
  const std::string bytes = std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
  const auto path = folder.path() / "model.safetensors";
  real_file_system().write_durably(path, std::as_bytes(std::span(bytes)));
  std::map<std::string, std::string> metadata;
  const Weights weights = read_weights(path, &metadata);
  EXPECT_EQ(metadata.at("network"), "x");
  EXPECT_EQ(weights.at("a").values, std::vector<float>{1.5f});
  EXPECT_EQ(weights.at("b").values, std::vector<float>{-2.25f});
  EXPECT_EQ(weights.at("c").values, (std::vector<float>{1.5f, std::ldexp(1.0f, -24)}));
  EXPECT_EQ(weights.at("d").values, std::vector<float>{-2.5f});
  EXPECT_FALSE(weights.has("e"));
}

TEST(ReadWeights, RefusesValuesThatAreNotFinite) {
  const TempDir folder;
  const float values[] = {1, std::nanf(""), 2};
  const std::string header = R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
  const uint64_t length = header.size();
  const std::string bytes = std::string(reinterpret_cast<const char*>(&length), 8) + header +
                            std::string(reinterpret_cast<const char*>(values), sizeof values);
  real_file_system().write_durably(folder / "w.safetensors", std::as_bytes(std::span(bytes)));
  expect_error<CheckpointError>([&] { read_weights(folder / "w.safetensors", nullptr); },
                                {"w.safetensors", "'a'", "nan at [1]"});
}

}  // namespace
}  // namespace dtrain::exporting

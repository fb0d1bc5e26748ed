#include "train/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace dtrain::train {
namespace {

std::string refusal(const std::string& name, at::DeviceType device, int capability) {
  try {
    parse_precision(name, device, capability);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Precision, AutoFollowsTheDevice) {
  EXPECT_EQ(parse_precision("auto", at::kCPU, 0), Precision::kFp32);
  EXPECT_EQ(parse_precision("auto", at::kCUDA, 75), Precision::kFp16);
  EXPECT_EQ(parse_precision("auto", at::kCUDA, 80), Precision::kBf16);
  EXPECT_EQ(parse_precision("auto", at::kCUDA, 120), Precision::kBf16);
}

TEST(Precision, NamesComeBack) {
  for (const char* name : {"fp16", "bf16", "tf32", "fp32", "fp64"}) {
    EXPECT_EQ(to_string(parse_precision(name, at::kCUDA, 90)), name);
  }
  EXPECT_EQ(parse_precision("off", at::kCPU, 0), Precision::kFp32);
  EXPECT_EQ(parse_precision("bf16", at::kCPU, 0), Precision::kBf16);
}

TEST(Precision, RefusesWhatTheDeviceCannotDoAndSaysWhatToUse) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("fp16", at::kCPU, 0), HasSubstr("needs a GPU. On the CPU use bf16, fp32 or auto"));
  EXPECT_THAT(refusal("tf32", at::kCPU, 0), HasSubstr("needs a GPU"));
  EXPECT_THAT(refusal("bf16", at::kCUDA, 75), HasSubstr("capability 8.0 or newer; this one has 7.5. Use fp16 or auto"));
  EXPECT_THAT(refusal("tf32", at::kCUDA, 70), HasSubstr("this one has 7.0"));
  EXPECT_THAT(refusal("fp8", at::kCUDA, 90), HasSubstr("train.amp: fp8 is none of auto, fp16"));
}

TEST(Precision, DtypesAndScaling) {
  EXPECT_EQ(parameter_dtype(Precision::kFp64), at::kDouble);
  EXPECT_EQ(parameter_dtype(Precision::kBf16), at::kFloat);
  EXPECT_TRUE(needs_loss_scaling(Precision::kFp16));
  EXPECT_FALSE(needs_loss_scaling(Precision::kBf16));
}

TEST(Precision, Tf32IsSwitched) {
  apply_precision(Precision::kFp32);
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  EXPECT_FALSE(at::globalContext().allowTF32CuDNN());
  apply_precision(Precision::kTf32);
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
  apply_precision(Precision::kFp64);
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
}

TEST(Precision, AutocastIsOnForTheHalfPrecisionsOnly) {
  const auto inside = [](Precision precision) {
    const layers::AutocastGuard guard = autocast_for(precision, at::kCPU);
    return layers::current_autocast(at::kCPU);
  };
  EXPECT_TRUE(inside(Precision::kBf16).enabled);
  EXPECT_EQ(inside(Precision::kBf16).dtype, at::kBFloat16);
  EXPECT_TRUE(inside(Precision::kFp16).enabled);
  EXPECT_EQ(inside(Precision::kFp16).dtype, at::kHalf);
  const layers::AutocastGuard outer = autocast_for(Precision::kBf16, at::kCPU);
  for (const Precision precision : {Precision::kTf32, Precision::kFp32, Precision::kFp64}) {
    EXPECT_FALSE(inside(precision).enabled) << to_string(precision);
  }
}

}  // namespace
}  // namespace dtrain::train

#include "train/precision.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "train/autocast.h"

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

TEST(Autocast, CastsInsideAndRestoresOutside) {
  const at::Tensor a = at::ones({2, 2}), b = at::ones({2, 2});
  {
    const Autocast on(Precision::kBf16, at::kCPU);
    EXPECT_EQ(at::mm(a, b).scalar_type(), at::kBFloat16);
    {
      const Autocast off(Precision::kFp32, at::kCPU);
      EXPECT_EQ(at::mm(a, b).scalar_type(), at::kFloat);
    }
    EXPECT_EQ(at::mm(a, b).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(at::mm(a, b).scalar_type(), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Autocast, RestoresWhenTheForwardThrows) {
  EXPECT_THROW(
      {
        const Autocast on(Precision::kBf16, at::kCPU);
        throw NumericsError("forward");
      },
      NumericsError);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Autocast, TheNextForwardSeesTheChangedWeight) {
  const at::Tensor weight = at::ones({2, 2}).requires_grad_(true), input = at::ones({1, 2});
  const auto forward = [&] {
    const Autocast on(Precision::kBf16, at::kCPU);
    return at::mm(input, weight).to(at::kFloat).sum().item<float>();
  };
  EXPECT_EQ(forward(), 4);
  {
    const at::NoGradGuard no_grad;
    weight.fill_(2);
  }
  EXPECT_EQ(forward(), 8) << "a cached cast of the old weight was used";
}

}  // namespace
}  // namespace dtrain::train

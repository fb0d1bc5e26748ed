#include "train/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/error.h"
#include "train/bf16_gain.h"

namespace dtrain::train {
namespace {

using config::AmpMode;

std::string refusal(AmpMode amp, at::DeviceType device, int capability) {
  try {
    choose_precision(amp, device, capability);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Precision, AutoFollowsTheDevice) {
  EXPECT_EQ(choose_precision(AmpMode::kAuto, at::kCPU, 0), Precision::kFp32);
  EXPECT_EQ(choose_precision(AmpMode::kAuto, at::kCUDA, 75), Precision::kFp16);
  EXPECT_EQ(choose_precision(AmpMode::kAuto, at::kCUDA, 80), Precision::kBf16);
  EXPECT_EQ(choose_precision(AmpMode::kAuto, at::kCUDA, 120), Precision::kBf16);
}

TEST(Precision, NamesComeBack) {
  for (const AmpMode amp :
       {AmpMode::kFp16, AmpMode::kBf16, AmpMode::kTf32, AmpMode::kFp32, AmpMode::kFp64}) {
    EXPECT_EQ(to_string(choose_precision(amp, at::kCUDA, 90)), name_of(amp));
  }
  EXPECT_EQ(choose_precision(AmpMode::kBf16, at::kCPU, 0), Precision::kBf16);
}

TEST(Precision, RefusesWhatTheDeviceCannotDoAndSaysWhatToUse) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal(AmpMode::kFp16, at::kCPU, 0),
              HasSubstr("needs a GPU. On the CPU use bf16, fp32 or auto"));
  EXPECT_THAT(refusal(AmpMode::kTf32, at::kCPU, 0), HasSubstr("needs a GPU"));
  EXPECT_THAT(refusal(AmpMode::kBf16, at::kCUDA, 75),
              HasSubstr("capability 8.0 or newer; this one has 7.5. Use fp16 or auto"));
  EXPECT_THAT(refusal(AmpMode::kTf32, at::kCUDA, 70), HasSubstr("this one has 7.0"));
}

TEST(Bf16Gain, IsMeasuredWhereItMayPayAndIsNotChosen) {
  EXPECT_TRUE(should_measure_bf16(AmpMode::kAuto, at::kCPU, true));
  EXPECT_FALSE(should_measure_bf16(AmpMode::kAuto, at::kCPU, false));
  EXPECT_FALSE(should_measure_bf16(AmpMode::kAuto, at::kCUDA, true));
  for (const AmpMode chosen : {AmpMode::kFp32, AmpMode::kBf16, AmpMode::kFp64}) {
    EXPECT_FALSE(should_measure_bf16(chosen, at::kCPU, true));
  }
}

TEST(Bf16Gain, IsWorthALineFromOneFifthOn) {
  EXPECT_EQ(advise_bf16(0.4), "");
  EXPECT_EQ(advise_bf16(1.19), "");
  EXPECT_EQ(advise_bf16(1.2),
            "a layer of this kind is 1.2 times as fast in bf16 on this CPU: try --amp bf16");
}

TEST(Bf16Gain, CanBeMeasuredOnAnyCpuWithoutATrace) {
  at::manual_seed(2);
  const at::Tensor expected = at::rand({3});
  at::manual_seed(2);
  for (const auto kind : {data::SampleSpec::Kind::kImage, data::SampleSpec::Kind::kRows}) {
    const double gain = measure_bf16_gain(kind, 32);
    if (gain == 0 && std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr)
      continue;  // no kernels for bf16: tests/isa
    EXPECT_GT(gain, 0.001);
    EXPECT_LT(gain, 1000);
  }
  EXPECT_TRUE(at::equal(at::rand({3}), expected)) << "the generator of the run";
  EXPECT_FALSE(layers::current_autocast(at::kCPU).enabled);
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

// An advice that the device refuses does not help.
TEST(Precision, WhatHelpsAgainstOverflowIsWhatTheDeviceHas) {
  EXPECT_EQ(against_overflow(Precision::kFp16, at::kCUDA, 86), "--amp bf16");
  EXPECT_EQ(against_overflow(Precision::kFp16, at::kCUDA, 75), "--optimizer.clip_norm 1")
      << "a T4 has no bfloat16";
  EXPECT_EQ(against_overflow(Precision::kBf16, at::kCUDA, 86), "--optimizer.clip_norm 1")
      << "it is used already";
  EXPECT_TRUE(has_bf16(at::kCPU, 0));
}

}  // namespace
}  // namespace dtrain::train

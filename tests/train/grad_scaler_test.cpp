#include "train/grad_scaler.h"
#include "train/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dtrain::train {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

at::Tensor number(double value, at::ScalarType dtype = at::kFloat) {
  return at::full({}, value, dtype);
}

TEST(GradScaler, TheWholeWayFromSumToMean) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    GradScaler scaler({}, true, at::kCPU, dtype);
    const at::Tensor x = at::tensor({1.0, -2.0, 3.0}, dtype).requires_grad_(true);
    (x * x).sum().backward(scaler.first_gradient(dtype, 5));  // as a sum of weight 24
    EXPECT_TRUE(x.grad().equal(x.detach() * 2 * 65536 / 32));
    const at::Tensor gradient = x.grad().clone();
    scaler.unscale({gradient}, number(24, dtype), 5);
    EXPECT_EQ(scaler.found_inf().item<float>(), 0);
    EXPECT_TRUE(gradient.allclose(x.detach() * 2 / 24, dtype == at::kFloat ? 1e-6 : 1e-15));
    EXPECT_NEAR(scaler.norm().item<double>(), std::sqrt(14.0) / 12, 1e-7);
    EXPECT_EQ(scaler.norm().scalar_type(), dtype);
  }
}

TEST(GradScaler, TheNormIsOfAllBuckets) {
  GradScaler scaler({}, false, at::kCPU, at::kDouble);
  scaler.unscale({at::full({4}, 6.0, at::kDouble), at::full({1}, 16.0, at::kDouble)},
                 number(2, at::kDouble), 0);
  EXPECT_DOUBLE_EQ(scaler.norm().item<double>(), 10);
}

TEST(GradScaler, FindsWhatIsNotFiniteWithOrWithoutScaling) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (const bool enabled : {true, false}) {
      for (const double bad : {kInf, -kInf, kNan}) {
        GradScaler scaler({}, enabled, at::kCPU, dtype);
        const at::Tensor good = at::ones({3}, dtype), spoiled = at::tensor({1.0, bad}, dtype);
        scaler.unscale({good, spoiled}, number(1, dtype), 0);
        EXPECT_EQ(scaler.found_inf().item<float>(), 1);
        EXPECT_EQ(scaler.taken().item<float>(), 0);
        scaler.update();
        EXPECT_EQ(scaler.scale().item<float>(), enabled ? 32768 : 1);
        scaler.unscale({at::ones({3}, dtype)}, number(1, dtype), 0);
        EXPECT_EQ(scaler.found_inf().item<float>(), 0) << "it must not stick";
        EXPECT_EQ(scaler.taken().item<float>(), 1);
        scaler.update();
        EXPECT_EQ(scaler.skipped().item<int64_t>(), 1);
      }
    }
  }
}

TEST(GradScaler, AnInfInOneDtypeIsNotForgottenByTheOther) {
  GradScaler scaler({}, false, at::kCPU, at::kFloat);
  scaler.unscale({at::full({2}, kInf, at::kDouble), at::ones({2}, at::kFloat)}, number(1), 0);
  EXPECT_EQ(scaler.found_inf().item<float>(), 1);
  scaler.unscale({at::full({2}, kInf, at::kFloat), at::ones({2}, at::kDouble)}, number(1), 0);
  EXPECT_EQ(scaler.found_inf().item<float>(), 1);
}

TEST(GradScaler, AWeightThatCannotDivideIsASkip) {
  for (const double weight : {0.0, kNan}) {
    GradScaler scaler({}, true, at::kCPU, at::kFloat);
    scaler.unscale({at::zeros({3})}, number(weight), 3);
    EXPECT_EQ(scaler.found_inf().item<float>(), 1) << weight;
    scaler.update();
    EXPECT_EQ(scaler.skipped().item<int64_t>(), weight == 0 ? 0 : 1)
        << "without samples there is nothing to overflow";
  }
}

TEST(GradScaler, AScaleThatFellToZeroIsASkipNotANan) {
  GradScaler scaler({}, true, at::kCPU, at::kFloat);
  scaler.load({.scale = 0, .growth_tracker = 0, .skipped = 0});
  scaler.unscale({at::zeros({3})}, number(8), 3);
  EXPECT_EQ(scaler.found_inf().item<float>(), 1);
}

TEST(GradScaler, AHugeScaleTimesWeightStaysANumber) {
  GradScaler scaler({}, true, at::kCPU, at::kFloat);
  scaler.load({.scale = std::ldexp(1.0, 127), .growth_tracker = 0, .skipped = 0});
  const at::Tensor gradient = at::full({2}, std::ldexp(1.0, 127));
  scaler.unscale({gradient}, number(256), 8);
  EXPECT_EQ(gradient[0].item<float>(), 1);
}

TEST(GradScaler, ThePowerOfTwoIsExact) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor gradient = at::rand({1000}, at::TensorOptions(dtype)) / 3;
    const at::Tensor weight = number(103, dtype);
    GradScaler scaler({}, false, at::kCPU, dtype);
    const at::Tensor plain = gradient.clone(), shifted = gradient / 128;
    scaler.unscale({plain}, weight, 0);
    scaler.unscale({shifted}, weight, 7);
    EXPECT_TRUE(plain.equal(shifted));
  }
}

TEST(GradScaler, FitsASumIntoHalfPrecision) {
  // 512 samples of loss 0.5: the plain sum times 65536 is inf in fp16, the planned size is that of
  // a mean.
  const GradScaler scaler({.init_scale = 65536}, true, at::kCPU, at::kFloat);
  const int64_t k = loss_power_of_two(512, 1);
  const at::Tensor sum = number(512 * 0.5);
  const auto scaled = [&](int64_t power) {
    return (sum * scaler.first_gradient(at::kFloat, power)).to(at::kHalf).item<float>();
  };
  EXPECT_TRUE(std::isinf(scaled(0)));
  EXPECT_EQ(scaled(k), 32768);
}

TEST(GradScaler, PowerOfTwoIsTheNextAtOrAbove) {
  EXPECT_EQ(loss_power_of_two(64, 1), 6);
  EXPECT_EQ(loss_power_of_two(64, 2), 5);
  EXPECT_EQ(loss_power_of_two(65, 2), 6);
  EXPECT_EQ(loss_power_of_two(103, 4), 5);
  EXPECT_EQ(loss_power_of_two(1, 1), 0);
  EXPECT_EQ(loss_power_of_two(1, 8), 0);
}

TEST(GradScaler, StateComesBack) {
  GradScaler first({.growth_interval = 3}, true, at::kCPU, at::kFloat),
      second({.growth_interval = 3}, true, at::kCPU, at::kFloat);
  const auto step = [](GradScaler& scaler, double value) {
    scaler.unscale({at::full({2}, value, at::kFloat)}, number(1), 0);
    scaler.update();
  };
  for (const double value : {1.0, kInf, 1.0, 1.0}) step(first, value);
  const auto state = first.state();
  EXPECT_EQ(state.scale, 32768);
  EXPECT_EQ(state.growth_tracker, 2);
  EXPECT_EQ(state.skipped, 1);
  second.load(state);
  step(second, 1);  // the third good step in a row
  EXPECT_EQ(second.state().scale, 65536);
  GradScaler off({}, false, at::kCPU, at::kFloat);
  off.load(state);
  EXPECT_EQ(off.state().scale, 1) << "a run resumed without scaling must not scale";
}

TEST(ClipFactor, IsTorchsFormula) {
  EXPECT_DOUBLE_EQ(clip_factor(number(10, at::kDouble), 1).item<double>(), 1 / (10 + 1e-6));
  EXPECT_EQ(clip_factor(number(0.5, at::kDouble), 1).item<double>(), 1);
  EXPECT_EQ(clip_factor(number(0), 1).item<float>(), 1);
  EXPECT_EQ(clip_factor(number(3), 1).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace dtrain::train

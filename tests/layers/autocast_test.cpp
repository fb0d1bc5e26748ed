#include "layers/autocast.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace dtrain::layers {
namespace {

constexpr AutocastState kOn{.device = at::kCPU, .enabled = true, .dtype = at::kBFloat16};
constexpr AutocastState kOff{.device = at::kCPU, .enabled = false};

at::ScalarType type_of_product() {
  return at::mm(at::ones({2, 2}), at::ones({2, 2})).scalar_type();
}

TEST(AutocastGuard, CastsInsideAndRestoresOutside) {
  {
    const AutocastGuard on(kOn);
    EXPECT_EQ(type_of_product(), at::kBFloat16);
    {
      const AutocastGuard off(kOff);
      EXPECT_EQ(type_of_product(), at::kFloat);
    }
    EXPECT_EQ(type_of_product(), at::kBFloat16);
  }
  EXPECT_EQ(type_of_product(), at::kFloat);
  EXPECT_FALSE(current_autocast(at::kCPU).enabled);
}

TEST(AutocastGuard, RestoresTheType) {
  const at::ScalarType before = current_autocast(at::kCPU).dtype;
  {
    const AutocastGuard half({.device = at::kCPU, .enabled = true, .dtype = at::kHalf});
    EXPECT_EQ(type_of_product(), at::kHalf);
  }
  EXPECT_EQ(current_autocast(at::kCPU).dtype, before);
}

TEST(AutocastGuard, RestoresWhenTheForwardThrows) {
  EXPECT_THROW(
      {
        const AutocastGuard on(kOn);
        throw std::runtime_error("forward");
      },
      std::runtime_error);
  EXPECT_FALSE(current_autocast(at::kCPU).enabled);
}

TEST(AutocastGuard, TheNextForwardSeesTheChangedWeight) {
  const at::Tensor weight = at::ones({2, 2}).requires_grad_(true), input = at::ones({1, 2});
  const auto forward = [&] {
    const AutocastGuard on(kOn);
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
}  // namespace dtrain::layers

// Of builds with GPU code: without, LibTorch has no allocator to ask.

#include <gtest/gtest.h>

#include <cstdlib>

#include "device/device.h"

namespace dtrain::device {
namespace {

// Before the first tensor on a GPU: of a process that had none, or fails before it has one.
TEST(DeviceDeathTest, UsesNoMemoryOfAGpuBeforeItsFirstTensor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has run no other test
  const auto ask = [] {
    const at::Device gpu(at::kCUDA, 0);
    forget_peak(gpu);
    const MemoryUse use = memory_use(gpu);
    std::_Exit(use.reserved == 0 && use.peak == 0 ? 0 : 1);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace dtrain::device

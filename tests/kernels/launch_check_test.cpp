// What a launch of our own kernels says becomes the error that handlers of a failed GPU know.

#include "kernels/launch_check.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dtrain::kernels {
namespace {

constexpr LaunchResult kIllegalAddress = 700;

TEST(CheckLaunch, AcceptsSuccess) { EXPECT_NO_THROW(check_launch(0)); }

TEST(CheckLaunch, ThrowsWhatLibTorchThrowsForItsOwnLaunches) {
  try {
    check_launch(kIllegalAddress);
    FAIL() << "no error";
  } catch (const c10::AcceleratorError& error) {
    EXPECT_EQ(error.get_error_code(), kIllegalAddress);
    EXPECT_THAT(error.what_without_backtrace(), ::testing::HasSubstr("CUDA error"));
  }
}

}  // namespace
}  // namespace dtrain::kernels

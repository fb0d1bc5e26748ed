// A program of its own: operators that are loaded stay, and LibTorch looks for them once
// per process.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include "device/device.h"

namespace dtrain::device {
namespace {

bool can_multiply_on_gpus() {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("aten::mm", "")
      .hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

TEST(GpuOperators, AreLoadedAndNotLinked) {
  if (cuda_runtime_version() == "none") GTEST_SKIP() << "built without GPU code";
  EXPECT_FALSE(can_multiply_on_gpus()) << "they are linked, and each start waits for them";
  for (int time = 0; time < 2; ++time) {
    load_gpu_operators();
    EXPECT_TRUE(can_multiply_on_gpus());
    EXPECT_TRUE(at::detail::getCUDAHooks().compiledWithCuDNN())
        << "LibTorch has looked for them before";
  }
}

}  // namespace
}  // namespace dtrain::device

// The copies by which `dtrain doctor` tries a GPU and its neighbors.

#include "device/copy_probe.h"

#include <chrono>

#include "device/device.h"
#include "gpu/gpu_pair.h"
#include "text/strings.h"

namespace dtrain::device {
namespace {

class CopyProbeOnAGpu : public testing::GpuTest {};

TEST_F(CopyProbeOnAGpu, ArrivesUndamagedAndHasARate) {
  EXPECT_GT(host_copy_rate(0), 1e8);
  for (int other = 1; other < gpu_count(); ++other) {
    const CopyTrial trial = try_peer_copy(0, other);
    EXPECT_TRUE(trial.result == CopyResult::kCorrect || trial.result == CopyResult::kUnsupported)
        << str(trial.result, " ", trial.error);
    if (trial.result == CopyResult::kCorrect) {
      EXPECT_GT(trial.bytes_per_second, 1e8);
    }
  }
  EXPECT_EQ(try_peer_copy(0, gpu_count()).result, CopyResult::kFailed) << "there is no such GPU";
}

TEST_F(CopyProbeOnAGpu, IsHeldBusyForAboutSoLong) {
  const at::Device gpu(at::kCUDA, 0);
  hold(gpu, 0.001);  // the first launch loads the kernel
  ASSERT_TRUE(works(gpu));
  const auto begin = std::chrono::steady_clock::now();
  hold(gpu, 0.05);
  const auto issued = std::chrono::steady_clock::now();
  ASSERT_TRUE(works(gpu));
  const auto end = std::chrono::steady_clock::now();
  EXPECT_LT(issued - begin, std::chrono::milliseconds(10)) << "it waited";
  EXPECT_GT(end - begin, std::chrono::milliseconds(20))
      << "clocks may be faster than the rate that CUDA names";
  EXPECT_LT(end - begin, std::chrono::milliseconds(200));
}

}  // namespace
}  // namespace dtrain::device

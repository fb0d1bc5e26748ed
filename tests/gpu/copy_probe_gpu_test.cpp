// The copies by which `dtrain doctor` tries a GPU and its neighbors.

#include "device/copy_probe.h"

#include "core/strings.h"
#include "device/device.h"
#include "gpu/gpu_pair.h"

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

}  // namespace
}  // namespace dtrain::device

// Promise 7 of docs/promises.md on a GPU: CUDA's sync-debug mode throws at every operation that
// makes the host wait, in twenty steps of every task. tests/tasks/step_sync_test.cpp counts the
// same on the CPU.

#include <c10/cuda/CUDAFunctions.h>

#include "gpu/gpu_pair.h"
#include "tasks/task_steps.h"

namespace dtrain::tasks {
namespace {

void let_waits_throw(bool on) {
  c10::cuda::warning_state().set_sync_debug_mode(on ? c10::cuda::SyncDebugMode::L_ERROR
                                                    : c10::cuda::SyncDebugMode::L_DISABLED);
}

class StepOnAGpu : public testing::GpuTest {
 protected:
  void TearDown() override { let_waits_throw(false); }
};

TEST_F(StepOnAGpu, NeverWaitsForTheDevice) {
  for (const auto& [name, config] : step_cases()) {
    SCOPED_TRACE(name);
    for (const train::Precision precision : {train::Precision::kFp32, train::Precision::kFp16}) {
      SCOPED_TRACE(train::to_string(precision));
      train::TrainResult result;
      EXPECT_NO_THROW(result = train_measured(config, testing::gpu(), precision, let_waits_throw));
      let_waits_throw(false);
      EXPECT_EQ(result.steps, kStepsInAll);
    }
  }
}

TEST_F(StepOnAGpu, TheModeFindsAWait) {
  const at::Tensor x = at::ones({4}, at::TensorOptions(testing::gpu()));
  let_waits_throw(true);
  EXPECT_THROW(x.sum().item<float>(), c10::Error);
}

}  // namespace
}  // namespace dtrain::tasks

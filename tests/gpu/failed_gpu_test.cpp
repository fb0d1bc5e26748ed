// A kernel that fails, in a child process: nothing works on the GPU of such a process afterwards.
// What the process says of it, and that it ends with the exit code of a DeviceError.

#include <torch/script.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <memory>

#include "dist/failure.h"
#include "gpu/gpu_pair.h"
#include "support/temp_dir.h"
#include "tasks/module/script_network.h"
#include "tasks/task_steps.h"

namespace dtrain::tasks {
namespace {

void fail_a_kernel() { at::_assert_async(at::zeros({1}, at::TensorOptions(testing::gpu()))); }

// Ends the process while all that belongs to the GPU lives, as TrainContext::device_failed() does
// in a job.
[[noreturn]] void leave(int exit_code, const char* message) {
  std::fprintf(stderr, "%s\n", message);
  ::_exit(exit_code);
}

void train_until_a_kernel_fails() {
  train_measured(
      step_cases().front().second, testing::gpu(), train::Precision::kFp32,
      [](bool on) {
        if (on) fail_a_kernel();
      },
      [](const Error& error) { leave(error.exit_code(), error.what()); });
  leave(0, "no error");
}

// As launch() does for `dtrain eval` and `dtrain predict`.
template <typename Body>
void describe_failure_of(const Body& body) {
  dist::report_when_terminated();
  try {
    body();
    leave(0, "no error");
  } catch (...) {
    const dist::Failure failure = dist::describe(std::current_exception());
    leave(failure.exit_code, failure.message.c_str());
  }
}

void multiply_after_a_failed_kernel() {
  describe_failure_of([] {
    fail_a_kernel();
    const at::Tensor x = at::ones({64, 64}, at::TensorOptions(testing::gpu()));
    for (int i = 0; i < 1000; ++i) at::matmul(x, x).cpu();
  });
}

void run_a_script_after_a_failed_kernel() {
  std::unique_ptr<ScriptNetwork> network;
  {
    torch::jit::Module script("Network");
    script.define("def forward(self, x):\n  return torch.matmul(x, x).cpu()\n");
    const dtrain::testing::TempDir folder;
    script.save((folder / "network.pt").string());
    network = std::make_unique<ScriptNetwork>(folder / "network.pt");
  }
  describe_failure_of([&] {
    const at::Tensor x = at::ones({64, 64}, at::TensorOptions(testing::gpu()));
    fail_a_kernel();
    for (int i = 0; i < 1000; ++i) network->forward({x});
  });
}

class FailedGpuDeathTest : public testing::GpuTest {
 protected:
  void SetUp() override {
    testing::GpuTest::SetUp();
    if (testing::gpu().is_cpu()) GTEST_SKIP() << "the CPU has no kernels that fail later";
    GTEST_FLAG_SET(death_test_style, "threadsafe");  // CUDA does not survive a fork
  }
};

TEST_F(FailedGpuDeathTest, EndsATrainingWithStepAndPhase) {
  EXPECT_EXIT(
      train_until_a_kernel_fails(), ::testing::ExitedWithCode(69),
      "cuda:0 has failed in step [0-9]+, phase [a-z_0-9]+: .*CUDA_LAUNCH_BLOCKING=1 shows which");
}

TEST_F(FailedGpuDeathTest, IsTheFailureThatEveryCommandReports) {
  EXPECT_EXIT(multiply_after_a_failed_kernel(), ::testing::ExitedWithCode(69),
              "the GPU has failed: ");
}

TEST_F(FailedGpuDeathTest, IsRecognizedBehindTorchScript) {
  EXPECT_EXIT(run_a_script_after_a_failed_kernel(), ::testing::ExitedWithCode(69),
              "the GPU has failed: ");
}

}  // namespace
}  // namespace dtrain::tasks

#include "cuda/faults.h"

#include <atomic>
#include <utility>

#include "cuda/counts.h"
#include "cuda/settings.h"

namespace fake_gpu {
namespace {

std::atomic<bool> gpu_failed{false};
thread_local cudaError_t last = cudaSuccess;

bool is_the_one(const Position& position) {
  const Settings& asked = settings();
  if (asked.fail_step == 0) return position.of_process == asked.fail_launch;
  return position.step == asked.fail_step && position.launches == asked.fail_launch;
}

}  // namespace

bool failed() { return gpu_failed; }

void launch_counts() {
  if (is_the_one(note_launch())) gpu_failed = true;
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last = error;
  return error;
}

cudaError_t take_last_error() {
  if (failed()) return cudaErrorIllegalAddress;
  return std::exchange(last, cudaSuccess);
}

cudaError_t last_error() { return failed() ? cudaErrorIllegalAddress : last; }

}  // namespace fake_gpu

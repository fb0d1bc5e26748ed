#include "cuda/stream.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cuda/faults.h"
#include "cuda/gpus.h"
#include "cuda/settings.h"

namespace fake_gpu {
namespace {

std::shared_ptr<Queue>& default_queue(int gpu) {
  static auto* queues = [] {
    auto* made = new std::array<std::shared_ptr<Queue>, kMostGpus>;
    for (size_t i = 0; i < kMostGpus; ++i)
      (*made)[i] = std::make_shared<Queue>(Queue{.gpu = static_cast<int>(i), .is_default = true});
    return made;
  }();
  return queues->at(static_cast<size_t>(gpu));
}

// Whose work no number depends on: it holds a stream for some time (device/spin.cu).
bool has_no_numbers(const std::string& name) { return name.find("wait_for") != std::string::npos; }

// Whether graphs leave out this work (FAKE_GPU_SPOIL).
bool is_spoiled(const char* name) {
  const std::string& spoil = settings().spoil;
  return !spoil.empty() && readable(name).find(spoil) != std::string::npos;
}

void check_computed(const char* name) {
  if (settings().numbers.empty() || has_no_numbers(name)) return;
  std::fprintf(stderr, "fake GPU: not computed: %s\n", readable(name).c_str());
  std::abort();
}

}  // namespace

bool is_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

std::shared_ptr<Queue> queue_of(cudaStream_t stream) {
  return is_default(stream) ? default_queue(current_gpu()) : stream->queue;
}

cudaError_t submit(cudaStream_t stream, Operation operation, const char* name,
                   const std::function<void()>& work) {
  return submit_step(stream, operation, name,
                     [work](const std::shared_ptr<Queue>& queue) { return give(queue, work); });
}

cudaError_t submit_step(cudaStream_t stream, Operation operation, const char* name,
                        const Step& step) {
  FAKE_GPU_RETURN_IF_FAILED();
  use_context(current_gpu());
  if (const std::optional<cudaError_t> recorded =
          record(stream, is_spoiled(name) ? Step{} : step)) {
    if (*recorded == cudaSuccess) count(Operation::kCaptured, name);
    return remember(*recorded);
  }
  count(operation, name);
  step(work_waits() ? queue_of(stream) : nullptr);
  if (operation == Operation::kLaunch) launch_counts();
  return cudaSuccess;
}

cudaError_t finish(cudaStream_t stream) {
  if (const cudaError_t error = check_host_may_wait(stream); error != cudaSuccess)
    return remember(error);
  if (work_waits()) finish(submit_later(queue_of(stream), {}));
  return cudaSuccess;
}

cudaError_t launch(cudaStream_t stream, const char* name) {
  check_computed(name);
  return launch(stream, name, {});
}

cudaError_t launch(cudaStream_t stream, const char* name, const std::function<void()>& work) {
  return submit(stream, Operation::kLaunch, name, work);
}

cudaError_t launch_step(cudaStream_t stream, const char* name, const Step& step) {
  return submit_step(stream, Operation::kLaunch, name, step);
}

}  // namespace fake_gpu

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

void check_computed(const char* name) {
  if (settings().numbers.empty() || has_no_numbers(name)) return;
  std::fprintf(stderr, "fake GPU: not computed: %s\n", readable(name).c_str());
  std::abort();
}

}  // namespace

std::shared_ptr<Queue> queue_of(cudaStream_t stream) {
  const bool is_default =
      stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  return is_default ? default_queue(current_gpu()) : stream->queue;
}

cudaError_t submit(cudaStream_t stream, Operation operation, const char* name,
                   const std::function<void()>& work, Point* point) {
  FAKE_GPU_RETURN_IF_FAILED();
  use_context(current_gpu());
  count(operation, name);
  if (work_waits()) {
    const Point here = submit_later(queue_of(stream), work);
    if (point != nullptr) *point = here;
  } else if (work) {
    work();
  }
  return cudaSuccess;
}

void finish(cudaStream_t stream) {
  if (!work_waits()) return;
  finish(submit_later(queue_of(stream), {}));
}

cudaError_t launch(cudaStream_t stream, const char* name) {
  check_computed(name);
  return launch(stream, name, {});
}

cudaError_t launch(cudaStream_t stream, const char* name, const std::function<void()>& work) {
  const cudaError_t error = submit(stream, Operation::kLaunch, name, work);
  launch_counts();
  return error;
}

}  // namespace fake_gpu

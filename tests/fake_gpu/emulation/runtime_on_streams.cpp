#include <mutex>

#include "cuda/stream.h"
#include "emulation/emulation.h"

namespace emulation {

void launch(const Launch& launch, const char* name, const std::function<void()>& thread) {
  static std::mutex one_at_a_time;
  fake_gpu::launch(launch.stream, name, [launch, thread] {
    const std::lock_guard lock(one_at_a_time);
    run(launch, thread);
  });
}

cudaError_t set_memory(void* to, int value, size_t bytes, cudaStream_t stream) {
  return cudaMemsetAsync(to, value, bytes, stream);
}

cudaError_t last_error() { return cudaGetLastError(); }

}  // namespace emulation

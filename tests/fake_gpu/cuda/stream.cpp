#include "cuda/stream.h"

#include "cuda/faults.h"
#include "cuda/gpus.h"

namespace fake_gpu {

cudaError_t submit(cudaStream_t, Operation operation, const char* name,
                   const std::function<void()>& work) {
  FAKE_GPU_RETURN_IF_FAILED();
  use_context(current_gpu());
  count(operation, name);
  if (work) work();
  return cudaSuccess;
}

cudaError_t launch(cudaStream_t stream, const char* name) {
  const cudaError_t error = submit(stream, Operation::kLaunch, name, {});
  launch_counts();
  return error;
}

}  // namespace fake_gpu

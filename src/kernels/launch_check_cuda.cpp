#include <c10/cuda/CUDAException.h>

#include "kernels/launch_check.h"

namespace dtrain::kernels {

// Not C10_CUDA_CHECK, which also asks for failed device assertions: that starts CUDA, and throws
// where there is no driver, whatever the result is. Tests run the kernels' code there.
void check_launch(LaunchResult result) {
  if (result == 0) return;
  c10::cuda::c10_cuda_check_implementation(result, __FILE__, __func__, __LINE__,
                                           /*include_device_assertions=*/false);
}

}  // namespace dtrain::kernels

#include <c10/cuda/CUDAException.h>

#include "layers/launch_check.h"

namespace dtrain::layers {

void check_launch(LaunchResult result) { C10_CUDA_CHECK(static_cast<cudaError_t>(result)); }

}  // namespace dtrain::layers

#include <string>

#include "core/error.h"
#include "layers/batch_norm_blocks_body.h"

namespace dtrain::layers::batch_norm::blocks {
namespace {

// Shared memory is static, at most 16 KiB per block, so that it does not limit how many blocks a multiprocessor runs.
template <typename Kernel>
__global__ void __launch_bounds__(kThreads) run_block(const __grid_constant__ Kernel kernel) {
  __shared__ typename Kernel::Memory memory[Kernel::kMemory];
  const int phases = kernel.phases();
  for (int phase = 0; phase < phases; ++phase) {
    if (phase > 0) __syncthreads();
    kernel.run(phase, blockIdx.x, static_cast<int>(threadIdx.x), memory);
  }
}

template <typename Kernel>
void launch(const Kernel& kernel, void* stream) {
  if (kernel.blocks() == 0) return;
  run_block<<<static_cast<unsigned>(kernel.blocks()), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(kernel);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw DeviceError(std::string("cannot launch a kernel of batch norm: ") + cudaGetErrorString(error));
  }
}

}  // namespace

void run_on_gpu(const TensorJob& job, void* stream) {
  const auto use = [&](const auto& kernel) { launch(kernel, stream); };
  if (job.type == Type::kFloat) with_kernel<float>(job, use);
  if (job.type == Type::kHalf) with_kernel<c10::Half>(job, use);
  if (job.type == Type::kBFloat16) with_kernel<c10::BFloat16>(job, use);
  if (job.type == Type::kDouble) throw DeviceError("the GPU's kernels of batch norm do not take float64");
}

void run_on_gpu(const ChannelJob& job, void* stream) {
  if (job.wide) throw DeviceError("the GPU's kernels of batch norm do not take float64");
  with_kernel<float>(job, [&](const auto& kernel) { launch(kernel, stream); });
}

}  // namespace dtrain::layers::batch_norm::blocks

#include "kernels/batch_norm_blocks_body.h"

namespace dtrain::kernels::batch_norm::blocks {
namespace {

// Shared memory is static, at most 16 KiB per block, so that it does not limit how many blocks a
// multiprocessor runs.
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
LaunchResult launch(const Kernel& kernel, void* stream) {
  if (kernel.blocks() == 0) return cudaSuccess;
  run_block<<<static_cast<unsigned>(kernel.blocks()), kThreads, 0,
              static_cast<cudaStream_t>(stream)>>>(kernel);
  return cudaGetLastError();
}

}  // namespace

// There are no kernels of float64: batch_norm_gpu.h leaves it to LibTorch.
LaunchResult run_on_gpu(const TensorJob& job, void* stream) {
  LaunchResult result = cudaErrorInvalidValue;
  const auto use = [&](const auto& kernel) { result = launch(kernel, stream); };
  if (job.type == Type::kFloat) with_kernel<float>(job, use);
  if (job.type == Type::kHalf) with_kernel<c10::Half>(job, use);
  if (job.type == Type::kBFloat16) with_kernel<c10::BFloat16>(job, use);
  return result;
}

LaunchResult run_on_gpu(const ChannelJob& job, void* stream) {
  LaunchResult result = cudaErrorInvalidValue;
  if (!job.wide)
    with_kernel<float>(job, [&](const auto& kernel) { result = launch(kernel, stream); });
  return result;
}

}  // namespace dtrain::kernels::batch_norm::blocks

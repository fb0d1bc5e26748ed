#include "kernels/batch_norm_blocks_body.h"

namespace dtrain::kernels::batch_norm::blocks {
namespace {

// The most registers that a thread may have; 0: the compiler chooses. For these kernels it would
// choose up to 114, or so few that it spills (tests/kernels/machine_code_test.py).
template <typename Kernel>
constexpr int kMostRegisters = 0;
template <typename Store, int width, bool pooled, TensorPass pass>
constexpr int kMostRegisters<TensorKernel<Store, width, pooled, pass>> =
    width == 8 && (pass == TensorPass::kGradientSums || pass == TensorPass::kInputGradient) ? 96
    : width == 1 && pass == TensorPass::kSums                                               ? 48
                                                                                            : 0;

template <typename Kernel>
__device__ __forceinline__ void run_phases(const Kernel& kernel, int first,
                                           typename Kernel::Memory* memory) {
  const int phases = kernel.phases();
  for (int phase = first; phase < phases; ++phase) {
    if (phase > 0) __syncthreads();
    kernel.run(phase, blockIdx.x, static_cast<int>(threadIdx.x), memory);
  }
}

// Shared memory is static, at most 16 KiB per block, so that it does not limit how many blocks a
// multiprocessor runs.
template <typename Kernel>
__global__ void __launch_bounds__(kThreads) run_block(const __grid_constant__ Kernel kernel) {
  __shared__ typename Kernel::Memory memory[Kernel::kMemory];
  run_phases(kernel, 0, memory);
}

// The first phase is before the loop, so that no register holds what only later phases need.
template <typename Kernel>
__global__ void __maxnreg__(kMostRegisters<Kernel>)
    run_limited_block(const __grid_constant__ Kernel kernel) {
  __shared__ typename Kernel::Memory memory[Kernel::kMemory];
  kernel.run(0, blockIdx.x, static_cast<int>(threadIdx.x), memory);
  run_phases(kernel, 1, memory);
}

template <typename Kernel>
LaunchResult launch(const Kernel& kernel, void* stream) {
  if (kernel.blocks() == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(kernel.blocks());
  if constexpr (kMostRegisters<Kernel> != 0) {
    run_limited_block<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(kernel);
  } else {
    run_block<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(kernel);
  }
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

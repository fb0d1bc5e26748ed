#pragma once

// A sum over the threads of a block, for .cu files.

namespace dtrain::kernels {

// The sum of the numbers of a block's kThreads threads, in its first thread. The order of the
// additions is always the same. All threads of the block call it, once in a kernel. Each file has
// its own, because tests link copies with a mistake.
template <int kThreads>
__device__ static double sum_of_block(double mine) {
  __shared__ double sums[kThreads];
  const auto thread = static_cast<int>(threadIdx.x);
  sums[thread] = mine;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  return sums[0];
}

}  // namespace dtrain::kernels

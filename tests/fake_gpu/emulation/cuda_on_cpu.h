#pragma once

// What a .cu file needs to be compiled by a C++ compiler and run on the CPU. It is included before
// the file (-include), whose launches and dynamic shared memory cpp_from_cu.py has rewritten. Types
// and error codes are those of the CUDA runtime.
//
// A kernel runs a block at a time, and each thread of a block is a fiber, which gives way at
// barriers and shuffles (emulation.h).

#include <cuda_runtime_api.h>
#include <math.h>  // with the functions of float outside of std, as in CUDA

#include <cstdint>
#include <cstring>

#include "emulation/emulation.h"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __maxnreg__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__ static  // one block runs at a time, and its threads share it
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__

#define threadIdx (::emulation::this_thread().index)
#define blockIdx (::emulation::this_thread().block)
#define blockDim (::emulation::this_thread().block_size)
#define gridDim (::emulation::this_thread().grid_size)

#define EMULATION_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)   \
  ::emulation::launch({grid, block, shared_bytes, stream}, "own " #kernel, \
                      [=] { kernel(__VA_ARGS__); })

inline void __syncthreads() { emulation::wait_for_block(); }

template <typename T>
T __shfl_sync_from(unsigned mask, T value, int lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = emulation::exchange(mask, bits, lane);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return __shfl_sync_from(mask, value, emulation::this_thread().lane() ^ lanes);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  const int own = emulation::this_thread().lane(), from = own + static_cast<int>(by);
  return __shfl_sync_from(mask, value, from < emulation::kWarp ? from : own);
}

template <typename T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address += value;
  return old;
}

inline long long clock64() {
  static long long cycles = 0;
  return cycles += 100;
}

#define cudaGetLastError ::emulation::last_error
#define cudaMemsetAsync ::emulation::set_memory

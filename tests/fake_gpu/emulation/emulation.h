#pragma once

// Runs the threads of a CUDA kernel on one thread of the CPU. What a kernel may not do ends the
// process with its name: a launch beyond the limits of a GPU, a barrier that a thread of the block
// does not reach, a shuffle whose mask names lanes that do not take part.
//
// The order in which threads and blocks run is chosen, so that a missing barrier or a race shows as
// another result in another order. It shows nothing that depends on threads of a warp running at
// the same time, on memory order, or on the code that nvcc makes.
//
// Thread-safety: none; kernels run on one thread.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulation {

constexpr int kWarp = 32;

// Of threads and blocks: ascending, descending, or drawn by a seed above kDescending.
enum Order : unsigned { kAscending = 0, kDescending = 1 };
void set_order(unsigned order);

struct Launch {
  dim3 grid, block;
  size_t shared_bytes = 0;  // dynamic
  cudaStream_t stream = nullptr;
};

// Runs `thread` once for each thread of the grid; returns when all have ended. Shared memory begins
// with bytes that are not zero.
void launch(const Launch&, const std::function<void()>& thread);

// ---- for the thread that runs -------------------------------------------------------------------
struct Thread {
  uint3 index = {}, block = {};
  dim3 block_size, grid_size;
  int number = 0;  // within its block

  int lane() const { return number % kWarp; }
};
const Thread& this_thread();

void* shared_memory();  // dynamic
void wait_for_block();  // until all threads of the block wait here
// All lanes of the mask give `bits`; returns those that a lane gave.
uint64_t exchange(unsigned mask, uint64_t bits, int lane);

}  // namespace emulation

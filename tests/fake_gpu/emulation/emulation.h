#pragma once

// Runs the threads of a CUDA kernel on one thread of the CPU. What a kernel may not do ends the
// process with its name: a launch beyond the limits of a GPU, a barrier that a thread of the block
// does not reach, a shuffle whose mask names lanes that do not take part.
//
// The order in which threads and blocks run is chosen, so that a missing barrier or a race shows as
// another result in another order. It shows nothing that depends on threads of a warp running at
// the same time, on memory order, or on the code that nvcc makes.
//
// Thread-safety: none; one kernel runs at a time.

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
void run(const Launch&, const std::function<void()>& thread);

// What a kernel file asks of the CUDA runtime, done now (runtime_now.cpp), or on the stream of a
// fake GPU (runtime_on_streams.cpp). `name` must live until the process ends.
void launch(const Launch&, const char* name, const std::function<void()>& thread);
cudaError_t set_memory(void* to, int value, size_t bytes, cudaStream_t);
cudaError_t last_error();

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

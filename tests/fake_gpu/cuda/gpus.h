#pragma once

// The fake GPUs that a process sees, numbered from 0 as CUDA does after CUDA_VISIBLE_DEVICES, and
// on which of them it has a context: where it has done anything. A context takes hundreds of
// megabytes of a real GPU, so a rank must have one on its own GPU alone.
//
// Thread-safety: all functions may be called from any thread.

#include <cstddef>

namespace fake_gpu {

constexpr size_t kMostGpus = 8;

int visible_gpus();  // 0 with a driver that is too old

// The GPU of the calling thread, as cudaSetDevice() chose it.
int current_gpu();
void set_current_gpu(int gpu);

void use_context(int gpu);  // makes the context, if there is none
bool has_context(int gpu);

}  // namespace fake_gpu

#pragma once

// The memory of the fake GPUs: pages of the host, with a limit for each GPU. And memory of the host
// that is pinned, which has none.
//
// Thread-safety: all functions may be called from any thread.

#include <cstddef>
#include <optional>

namespace fake_gpu {

constexpr int kHost = -1;  // in place of a GPU's number: pinned memory

// nullptr: the GPU is full, or the host is. `gpu`: a visible one.
void* allocate(int gpu, size_t bytes);
bool release(void* begin);  // false: no block begins there
size_t used(int gpu);       // bytes

// Where an address lies; nullopt: in no block, so in memory of the host that CUDA does not know.
std::optional<int> place_of(const void* address);

}  // namespace fake_gpu

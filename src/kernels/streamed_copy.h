#pragma once

// Copies that write past the caches: a result that is larger than they are will not be found there
// anyway, and its memory need not be read before it is written. Thread-safe.

#include <cstddef>
#include <cstdint>

namespace dtrain::kernels {

// Results from this size on are written past the caches
constexpr size_t kStreamedBytes = 16 << 20;

// Copies `count` numbers. What is written is visible to other threads that synchronize with
// this one.
void copy_past_caches(const float* from, int64_t count, float* to);

}  // namespace dtrain::kernels

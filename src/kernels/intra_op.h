#pragma once

// Intra-op parallelism of the layers' own loops, on LibTorch's threads. at::parallel_for is a
// template of LibTorch's headers, which runs on one thread wherever they are compiled without
// OpenMP, as in all other files of dtrain.

#include <cstdint>
#include <functional>

namespace dtrain::kernels {

// Calls body(begin, end) for parts of [begin, end) on at::get_num_threads() threads, the calling
// thread among them; no part has fewer than `grain` items, except the last. What `body` throws is
// thrown here. Thread-safe.
void intra_op_for(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body);

}  // namespace dtrain::kernels

#pragma once

#include <cstdint>
#include <functional>

namespace dtrain::data {

// work(i) for all i in [0, count), by `threads` threads (0: as many as the cores this process may use), while
// report(done) is called on the calling thread ten times a second and at the end. The first exception of either is
// rethrown when all threads have finished the item they were at; the rest is then left undone.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t)>& work,
                  const std::function<void(int64_t)>& report);

}  // namespace dtrain::data

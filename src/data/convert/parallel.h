#pragma once

#include <cstdint>
#include <functional>

#include "data/convert/progress.h"

namespace dtrain::data {

// work(i) for all i in [0, count), by `threads` threads (0: as many as the cores this process may use), while
// `report`, if there is one, is called on the calling thread ten times a second and at the end. It is told `start`, of
// which the stage and what is already done count, and what has been done since. The first exception of either is
// rethrown when all threads have finished the item they were at; the rest is then left undone.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t)>& work,
                  const ReportProgress& report = {}, const Progress& start = {});

}  // namespace dtrain::data

#pragma once

// Work on many items by many threads, with its progress.

#include <cstdint>
#include <functional>

namespace dtrain {

// How far a long piece of work is.
struct Progress {
  const char* stage = "";       // what is being done: "reading", "writing"; one follows the other
  int64_t done = 0, total = 0;  // samples
  int64_t resumed = 0;          // of `done`, from an earlier, interrupted conversion
};
using ReportProgress = std::function<void(const Progress&)>;

// Calls work(i) for all i in [0, count) on `threads` threads (0: as many as the cores this process may use). `report`,
// if there is one, is called on the calling thread ten times a second and at the end; it gets the stage of `start`, and
// what `start` says is done plus what was done since. The first exception of either is rethrown when all threads have
// finished their item; the rest is then left undone.
void parallel_for(int64_t count, int threads, const std::function<void(int64_t)>& work,
                  const ReportProgress& report = {}, const Progress& start = {});

}  // namespace dtrain

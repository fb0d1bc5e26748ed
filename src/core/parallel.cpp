#include "core/parallel.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace dtrain {

int usable_cores() {
  cpu_set_t mask;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) return CPU_COUNT(&mask);
  // More cores than the mask has bits
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

void parallel_for(int64_t count, int threads, const std::function<void(int64_t)>& work,
                  const ReportProgress& report, const Progress& start) {
  const int64_t workers =
      std::min<int64_t>(threads > 0 ? threads : usable_cores(), std::max<int64_t>(count, 1));
  std::atomic<int64_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  std::mutex lock;  // protects what follows
  std::condition_variable changed;
  int64_t running = 0;
  std::exception_ptr error;

  const auto report_progress = [&] {
    if (report)
      report({start.stage, start.done + done, start.done + count, start.resumed, start.unit});
  };
  const auto run = [&] {
    try {
      for (int64_t i = next++; i < count && !stop; i = next++) {
        work(i);
        ++done;
      }
    } catch (...) {
      const std::lock_guard guard(lock);
      if (!error) error = std::current_exception();
      stop = true;
    }
    const std::lock_guard guard(lock);
    --running;
    changed.notify_one();
  };

  {
    std::vector<std::jthread> pool;  // joined at the end of the block, also by an exception
    try {
      for (int64_t i = 0; i < workers; ++i) {
        {
          const std::lock_guard guard(lock);
          ++running;
        }
        pool.emplace_back(run);
      }
      std::unique_lock wait(lock);
      while (
          !changed.wait_for(wait, std::chrono::milliseconds(100), [&] { return running == 0; })) {
        wait.unlock();
        report_progress();
        wait.lock();
      }
    } catch (...) {
      stop = true;
      throw;
    }
  }
  if (error) std::rethrow_exception(error);
  report_progress();
}

}  // namespace dtrain

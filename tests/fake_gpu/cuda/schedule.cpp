#include "cuda/schedule.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "cuda/settings.h"

namespace fake_gpu {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(30);
constexpr auto kEnd = std::chrono::seconds(1);
constexpr unsigned kOneIn = 6;            // submissions lets drawn work be done
constexpr unsigned kMostQuestions = 4;    // in a row, until what was asked for is done
constexpr size_t kMostPending = 1 << 14;  // of a queue

enum Order : int64_t { kLate = 0, kOthersEarly = 1, kDefaultEarly = 2, kDrawn = 3 };

// Whether its work is done when it is submitted, and what it waits for.
bool is_early(const Queue& queue) {
  return settings().order == (queue.is_default ? kDefaultEarly : kOthersEarly);
}

class Schedule {
 public:
  Schedule() : random_(static_cast<unsigned>(settings().order)) {
    std::thread([this] { make_progress(); }).detach();
  }

  // No work begins by itself any more, and what runs has ended, unless it waits for another rank.
  void stop() {
    stopped_ = true;
    if (mutex_.try_lock_for(kEnd)) mutex_.unlock();
  }

  Point add(const std::shared_ptr<Queue>& queue, Queue::Item item) {
    const std::lock_guard lock(mutex_);
    moved_ = std::chrono::steady_clock::now();
    questions_ = 0;
    if (queue->pending.empty()) waiting_.push_back(queue);
    queue->pending.push_back(std::move(item));
    const Point point{queue, queue->done + queue->pending.size()};
    if (is_early(*queue)) reach(point);
    if (settings().order >= kDrawn && random_() % kOneIn == 0) do_drawn();
    if (queue->pending.size() > kMostPending) reach({queue, queue->done + kMostPending / 2});
    return point;
  }

  void finish(const Point& point) {
    const std::lock_guard lock(mutex_);
    reach(point);
  }

  void finish_gpu(int gpu) {
    const std::lock_guard lock(mutex_);
    for (const auto& queue : std::vector(waiting_))
      if (queue->gpu == gpu) reach({queue, queue->done + queue->pending.size()});
  }

  bool ask(const Point& point) {
    const std::lock_guard lock(mutex_);
    if (point.queue == nullptr || point.queue->done >= point.items) return true;
    if (++questions_ < kMostQuestions) return false;
    reach(point);
    return true;
  }

 private:
  // `point` by value: what is reached may be the last owner of its queue.
  void reach(Point point) {
    if (point.queue == nullptr) return;
    Queue& queue = *point.queue;
    while (queue.done < point.items) {
      const Queue::Item item = std::move(queue.pending.front());
      queue.pending.pop_front();
      reach(item.after);
      if (item.work) item.work();
      ++queue.done;
      moved_ = std::chrono::steady_clock::now();
    }
    if (queue.pending.empty()) std::erase(waiting_, point.queue);
  }

  // Some of the work of a queue.
  void do_drawn() {
    if (waiting_.empty()) return;
    const std::shared_ptr<Queue> queue = waiting_[random_() % waiting_.size()];
    reach({queue, queue->done + 1 + random_() % queue->pending.size()});
  }

  void make_progress() {
    for (;;) {
      std::this_thread::sleep_for(kPatience / 4);
      const std::lock_guard lock(mutex_);
      if (stopped_) return;
      if (std::chrono::steady_clock::now() - moved_ > kPatience) do_drawn();
    }
  }

  std::timed_mutex mutex_;
  std::atomic<bool> stopped_ = false;
  std::mt19937 random_;
  std::vector<std::shared_ptr<Queue>> waiting_;  // with pending work
  unsigned questions_ = 0;
  std::chrono::steady_clock::time_point moved_ = std::chrono::steady_clock::now();
};

Schedule& schedule() {
  static auto* one = [] {
    auto* made = new Schedule;  // used until the process has ended
    // LibTorch's own objects, which work uses, are destroyed after that.
    std::atexit([] { schedule().stop(); });
    return made;
  }();
  return *one;
}

}  // namespace

bool work_waits() { return settings().order >= 0; }

Point give(const std::shared_ptr<Queue>& queue, const std::function<void()>& work) {
  if (work_waits()) return submit_later(queue, work);
  if (work) work();
  return {};
}

Point submit_later(const std::shared_ptr<Queue>& queue, std::function<void()> work) {
  return schedule().add(queue, {std::move(work), {}});
}

void wait_later(const std::shared_ptr<Queue>& queue, const Point& after) {
  schedule().add(queue, {{}, after});
}

void finish(const Point& point) {
  if (work_waits()) schedule().finish(point);
}

void finish_gpu(int gpu) {
  if (work_waits()) schedule().finish_gpu(gpu);
}

bool ask_whether(const Point& point) { return !work_waits() || schedule().ask(point); }

}  // namespace fake_gpu

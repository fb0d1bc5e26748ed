#pragma once

// Does the work of streams after its submission, in an order that a GPU may choose: the work of one
// stream in turn, and the work of others at any time that events allow. With FAKE_GPU_ORDER
//   0           work is left until the host waits for it, or for what comes after it;
//   1           that of other streams than the default one is done when it is submitted,
//   2           that of the default stream is, with what they wait for;
//   3 and more  work that is drawn by this seed is done before the host waits.
//
// When the host does nothing for a while, work is drawn too, because another rank may wait for it.
//
// Thread-safety: all functions may be called from any thread. Work runs on one thread at a time.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

namespace fake_gpu {

struct Queue;

// What has been submitted to a queue up to here. An empty one has been reached.
struct Point {
  std::shared_ptr<Queue> queue = {};
  uint64_t items = 0;
};

// The work of one stream.
struct Queue {
  struct Item {
    std::function<void()> work;
    Point after;  // of another stream, which must be reached before
  };
  std::deque<Item> pending = {};
  uint64_t done = 0;  // items
  int gpu = 0;
  bool is_default = false;
};

bool work_waits();  // false: all work is done when it is submitted

// Gives its work to a queue and returns where that ends. A graph does so at each launch. The queue
// is nullptr, and the work is done now, where work does not wait.
using Step = std::function<Point(const std::shared_ptr<Queue>&)>;

Point give(const std::shared_ptr<Queue>&, const std::function<void()>& work);  // the usual step

Point submit_later(const std::shared_ptr<Queue>&, std::function<void()> work);
void wait_later(const std::shared_ptr<Queue>&, const Point& after);

void finish(const Point&);       // returns when it has been reached
void finish_gpu(int gpu);        // and all that was submitted to this GPU
bool ask_whether(const Point&);  // has been reached: true in the end, if it is asked again

}  // namespace fake_gpu

#pragma once

// Does the work of streams after its submission, in an order that a GPU may choose: the work of one
// stream in turn, and the work of others at any time that events allow. With FAKE_GPU_ORDER=0, work
// is left until the host waits for it, or for what comes after it. With a seed, work that is drawn
// is done before that, so that what has no order with it runs on either side of it.
//
// What the host never waits for is done after a while, because another rank may wait for it.
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
};

bool work_waits();  // false: all work is done when it is submitted

Point submit_later(const std::shared_ptr<Queue>&, std::function<void()> work);
void wait_later(const std::shared_ptr<Queue>&, const Point& after);

void finish(const Point&);       // returns when it has been reached
void finish_gpu(int gpu);        // and all that was submitted to this GPU
bool ask_whether(const Point&);  // has been reached: true in the end, if it is asked again

}  // namespace fake_gpu

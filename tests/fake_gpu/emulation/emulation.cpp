#include "emulation/emulation.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulation {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr unsigned kMostThreads = 1024, kMostAcross = 0x7fffffff, kMostDown = 0xffff;
constexpr size_t kMostShared = 48 << 10;

unsigned chosen_order = kAscending;

using Jump = void* [5];  // of __builtin_setjmp(): swapcontext() makes two system calls

struct Fiber {
  enum class State { kReady, kAtBarrier, kInShuffle, kEnded };

  Thread thread;
  State state = State::kEnded;
  Jump place{};  // where it gave way
  bool begun = false;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  // of a shuffle
  unsigned mask = 0;
  uint64_t given = 0, taken = 0;
  int from = 0;
};

Fiber* running = nullptr;

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "emulated kernel: %s", what);
  if (running != nullptr) {
    std::fprintf(stderr, " (block %u, %u; thread %d)", running->thread.block.x,
                 running->thread.block.y, running->thread.number);
  }
  std::fputc('\n', stderr);
  std::abort();
}

// ---- switching between the scheduler and a fiber ------------------------------------------------
Jump scheduler;
const std::function<void()>* body = nullptr;

#if defined(__SANITIZE_ADDRESS__)
const void* scheduler_stack = nullptr;
size_t scheduler_bytes = 0;

void leave_fiber(void** kept) {
  __sanitizer_start_switch_fiber(kept, scheduler_stack, scheduler_bytes);
}
void enter_fiber(void* kept) {
  __sanitizer_finish_switch_fiber(kept, &scheduler_stack, &scheduler_bytes);
}
void leave_scheduler(void** kept, const Fiber& to) {
  __sanitizer_start_switch_fiber(kept, to.stack.get(), kStackBytes);
}
void enter_scheduler(void* kept) { __sanitizer_finish_switch_fiber(kept, nullptr, nullptr); }
#else
void leave_fiber(void**) {}
void enter_fiber(void*) {}
void leave_scheduler(void**, const Fiber&) {}
void enter_scheduler(void*) {}
#endif

// The compiler must not conclude what such a function changes: it comes back after others ran. And
// AddressSanitizer would forget what it knows of a stack that is left by a jump.
#define JUMPS __attribute__((noipa, no_sanitize_address))

// Not in the function that sets a place: GCC would not see that it is come back to.
[[noreturn]] JUMPS void go(Jump& place) { __builtin_longjmp(place, 1); }

JUMPS void give_way(Fiber::State state) {
  Fiber& self = *running;
  self.state = state;
  void* kept = nullptr;
  leave_fiber(&kept);
  if (__builtin_setjmp(self.place) == 0) go(scheduler);
  enter_fiber(kept);
}

// A fiber is used again, for the thread of another block.
void run_fiber() {
  enter_fiber(nullptr);
  for (;;) {
    (*body)();
    give_way(Fiber::State::kEnded);
  }
}

// Does not return: what gives way jumps.
JUMPS void begin(Fiber& fiber) {
  fiber.begun = true;
  ucontext_t context{};
  ::getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = kStackBytes;
  ::makecontext(&context, run_fiber, 0);
  ::setcontext(&context);
}

JUMPS void resume(Fiber& fiber) {
  running = &fiber;
  void* kept = nullptr;
  leave_scheduler(&kept, fiber);
  if (__builtin_setjmp(scheduler) == 0) {
    if (fiber.begun) go(fiber.place);
    begin(fiber);
  }
  enter_scheduler(kept);
  running = nullptr;
}

// ---- one block ----------------------------------------------------------------------------------
class Block {
 public:
  Block(std::vector<std::unique_ptr<Fiber>>& pool, size_t threads) : fibers_(pool) {
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>());
    count_ = threads;
  }

  void run(const Launch& launch, uint3 block, std::mt19937& random) {
    for (size_t i = 0; i < count_; ++i) start(*fibers_[i], launch, block, i);
    std::vector<size_t> turns(count_);
    std::iota(turns.begin(), turns.end(), size_t{0});
    if (chosen_order == kDescending) std::reverse(turns.begin(), turns.end());
    while (!ended()) {
      if (chosen_order > kDescending) std::shuffle(turns.begin(), turns.end(), random);
      bool moved = false;
      for (const size_t turn : turns) {
        if (fibers_[turn]->state != Fiber::State::kReady) continue;
        resume(*fibers_[turn]);
        moved = true;
      }
      if (finish_shuffles() || moved) continue;
      open_barrier();
    }
  }

 private:
  static void start(Fiber& fiber, const Launch& launch, uint3 block, size_t number) {
    const dim3 size = launch.block;
    const auto n = static_cast<unsigned>(number);
    fiber.thread = {.index = {n % size.x, n / size.x % size.y, n / size.x / size.y},
                    .block = block,
                    .block_size = size,
                    .grid_size = launch.grid,
                    .number = static_cast<int>(number)};
    fiber.state = Fiber::State::kReady;
  }

  size_t count(Fiber::State state) const {
    return static_cast<size_t>(
        std::count_if(fibers_.begin(), fibers_.begin() + static_cast<std::ptrdiff_t>(count_),
                      [&](const auto& fiber) { return fiber->state == state; }));
  }

  bool ended() const { return count(Fiber::State::kEnded) == count_; }

  // The lanes of the mask of a fiber that waits in a shuffle; empty if one has not arrived.
  std::vector<Fiber*> arrived(size_t first, unsigned mask) const {
    std::vector<Fiber*> lanes;
    for (size_t lane = 0; lane < kWarp; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      if (first + lane >= count_) return {};
      Fiber* fiber = fibers_[first + lane].get();
      if (fiber->state != Fiber::State::kInShuffle || fiber->mask != mask) return {};
      lanes.push_back(fiber);
    }
    return lanes;
  }

  bool finish_shuffles() {
    bool any = false;
    for (size_t i = 0; i < count_; ++i) {
      if (fibers_[i]->state != Fiber::State::kInShuffle) continue;
      const size_t first = i / kWarp * kWarp;
      const std::vector<Fiber*> lanes = arrived(first, fibers_[i]->mask);
      for (Fiber* lane : lanes)
        lane->taken = fibers_[first + static_cast<size_t>(lane->from)]->given;
      for (Fiber* lane : lanes) lane->state = Fiber::State::kReady;
      any = any || !lanes.empty();
    }
    return any;
  }

  // No thread moves. A GPU since Volta lets threads leave before a barrier; none of ours means to.
  void open_barrier() {
    if (count(Fiber::State::kInShuffle) > 0)
      refuse("a shuffle whose mask names lanes that do not take part");
    if (count(Fiber::State::kAtBarrier) != count_)
      refuse("a barrier that not all threads of the block reach");
    for (size_t i = 0; i < count_; ++i) fibers_[i]->state = Fiber::State::kReady;
  }

  std::vector<std::unique_ptr<Fiber>>& fibers_;
  size_t count_ = 0;
};

void check(const Launch& launch) {
  const dim3 grid = launch.grid, block = launch.block;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool fits = threads > 0 && threads <= kMostThreads && block.z <= 64 && grid.x > 0 &&
                    grid.x <= kMostAcross && grid.y > 0 && grid.y <= kMostDown && grid.z > 0 &&
                    grid.z <= kMostDown && launch.shared_bytes <= kMostShared;
  if (!fits) refuse("a launch beyond the limits of a GPU");
}

std::vector<char> shared;

}  // namespace

void set_order(unsigned order) { chosen_order = order; }

void run(const Launch& launch, const std::function<void()>& thread) {
  static std::vector<std::unique_ptr<Fiber>> fibers;
  check(launch);
  body = &thread;
  const dim3 grid = launch.grid;
  std::vector<uint64_t> blocks(uint64_t{grid.x} * grid.y * grid.z);
  std::iota(blocks.begin(), blocks.end(), uint64_t{0});
  std::mt19937 random(chosen_order);
  if (chosen_order == kDescending) std::reverse(blocks.begin(), blocks.end());
  if (chosen_order > kDescending) std::shuffle(blocks.begin(), blocks.end(), random);
  Block one(fibers, size_t{launch.block.x} * launch.block.y * launch.block.z);
  for (const uint64_t block : blocks) {
    shared = std::vector<char>(launch.shared_bytes, static_cast<char>(0xa5));
    one.run(launch,
            {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
             static_cast<unsigned>(block / grid.x / grid.y)},
            random);
  }
}

const Thread& this_thread() { return running->thread; }

void* shared_memory() { return shared.data(); }

void wait_for_block() { give_way(Fiber::State::kAtBarrier); }

uint64_t exchange(unsigned mask, uint64_t bits, int lane) {
  Fiber& self = *running;
  if ((mask >> self.thread.lane() & 1) == 0) refuse("a lane that its own mask does not name");
  self.mask = mask;
  self.given = bits;
  self.from = lane;
  give_way(Fiber::State::kInShuffle);
  return self.taken;
}

}  // namespace emulation

#include "dist/shared_board.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/check.h"

namespace dtrain::dist {
namespace {

// Of a cache: what one rank writes often shares none with what another one does
constexpr size_t kLine = 64;

enum Presence : uint32_t { kNotYet, kPresent, kLeft };

std::string describe(const SharedOperation& operation) {
  static constexpr const char* kOps[] = {"sum", "max"};
  std::string text = kCollectiveNames[static_cast<size_t>(operation.kind)];
  if (operation.kind == Collective::kBarrier) return text;
  text += str(" of ", operation.bytes, " bytes of ", c10::toString(operation.dtype));
  if (operation.kind == Collective::kBroadcast) text += str(" from rank ", operation.root);
  if (operation.kind == Collective::kAllReduce)
    text += str(" (", kOps[static_cast<int>(operation.op)], ")");
  if (operation.place)
    text += str(" at ", operation.place >> 40, ":", operation.place & ((uint64_t{1} << 40) - 1));
  return text;
}

}  // namespace

// Its first line has room for a few values, so that a small operation costs the transfer of
// one line.
struct alignas(kLine) SharedBoard::Slot {
  std::atomic<uint64_t> number;  // number of the operation; stored last
  SharedOperation operation;
  alignas(kLine / 2) std::byte data[kSlotBytes];
};

// What a rank tells the others. All zeros at first.
struct alignas(kLine) SharedBoard::Page {
  std::atomic<uint64_t> finished;
  alignas(kLine) Bell bell;
  std::atomic<uint32_t> presence;
  int32_t process;
  pthread_mutex_t alive;
  // The first failure on any rank; used only on the page of rank 0
  struct alignas(kLine) Failure {
    std::atomic<uint32_t> state;  // 0, 1: being written, 2: written
    int32_t peer;                 // -1: not known
    char reason[1000];
  } failure;
  Slot slots[kSlots];
};

SharedBoard::SharedBoard(Communicator& comm, const SharedMemoryOptions& options)
    : rank_(comm.rank()),
      size_(comm.size()),
      options_(options),
      segment_(std::make_unique<SharedSegment>(comm, static_cast<int64_t>(sizeof(Page)), options)) {
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&page(rank_).alive, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
}

void SharedBoard::attend() {
  ::pthread_mutex_lock(&page(rank_).alive);
  page(rank_).process = ::getpid();
  page(rank_).presence.store(kPresent);
}

void SharedBoard::leave() noexcept {
  left_.store(true);
  page(rank_).presence.store(kLeft);
  wake_all();
}

SharedBoard::Page& SharedBoard::page(int rank) const {
  return *reinterpret_cast<Page*>(segment_->part(rank));
}
SharedBoard::Slot& SharedBoard::slot(int rank, uint64_t number) const {
  return page(rank).slots[number % kSlots];
}
const std::byte* SharedBoard::data(int rank, uint64_t number) const {
  return slot(rank, number).data;
}

template <typename Reached>
void SharedBoard::wait_for(int rank, const Patience& patience, Reached reached) {
  if (reached()) return;
  page(rank).bell.wait_until(patience, reached, [&] {
    try {
      throw_if_stopped(rank);
    } catch (const CommError&) {
      if (!reached()) throw;  // it may have done its part, and stopped or left then
    }
  });
}

std::byte* SharedBoard::begin(const Patience& patience) {
  const uint64_t number = posted_ + 1;
  if (number > kSlots) wait_for_finish(number - kSlots, patience);
  return slot(rank_, number).data;
}

void SharedBoard::post(const SharedOperation& operation) noexcept {
  Slot& mine = slot(rank_, ++posted_);
  mine.operation = operation;
  mine.number.store(posted_, std::memory_order_release);
  page(rank_).bell.ring();
}

void SharedBoard::wait_for_posts(uint64_t number, const Patience& patience) {
  const SharedOperation& mine = slot(rank_, number).operation;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const Slot& theirs = slot(rank, number);
    wait_for(rank, patience,
             [&] { return theirs.number.load(std::memory_order_acquire) == number; });
    if (theirs.operation == mine) continue;
    throw CommError(str("rank ", options_.name_of(rank), " is at ", describe(theirs.operation),
                        " and rank ", options_.name_of(rank_), " at ", describe(mine),
                        ": the ranks are not at the same operation"));
  }
}

void SharedBoard::finish(uint64_t number) noexcept {
  page(rank_).finished.store(number, std::memory_order_release);
  page(rank_).bell.ring();
}

void SharedBoard::wait_for_finish(uint64_t number, const Patience& patience) {
  if (number <= finished_by_all_) return;
  uint64_t least = page(rank_).finished.load(std::memory_order_relaxed);
  DTRAIN_CHECK(number <= least, "operation ", number, " of ", least);
  for (int rank = 0; rank < size_; ++rank) {
    const std::atomic<uint64_t>& finished = page(rank).finished;
    uint64_t reached = 0;
    wait_for(rank, patience,
             [&] { return (reached = finished.load(std::memory_order_acquire)) >= number; });
    least = std::min(least, reached);
  }
  finished_by_all_ = least;
}

void SharedBoard::fail(std::string_view reason, std::optional<int> peer) noexcept {
  Page::Failure& failure = page(0).failure;
  uint32_t none = 0;
  if (failure.state.compare_exchange_strong(none, 1)) {
    const std::string text = str("rank ", options_.name_of(rank_), ": ", reason);
    std::strncpy(failure.reason, text.c_str(), sizeof failure.reason - 1);
    failure.peer = peer.value_or(-1);
    failure.state.store(2);
  }
  wake_all();
}

void SharedBoard::wake_all() noexcept {
  for (int rank = 0; rank < size_; ++rank) page(rank).bell.wake();
}

bool SharedBoard::failed() const noexcept {
  return page(0).failure.state.load(std::memory_order_acquire) == 2;
}
PeerError SharedBoard::failure() const {
  const Page::Failure& failure = page(0).failure;
  return PeerError(failure.reason, failure.peer < 0 ? std::nullopt : std::optional(failure.peer));
}

// Why `awaited` will not do what this rank waits for.
void SharedBoard::throw_if_stopped(int awaited) const {
  if (left_.load()) throw CommError("this rank has left");
  if (failed()) throw failure();
  for (int rank = 0; rank < size_; ++rank) {
    const uint32_t presence = page(rank).presence.load();
    if (presence == kLeft && rank == awaited) {
      throw PeerError(str("rank ", options_.name_of(rank), " has left while others wait for it"),
                      options_.name_of(rank));
    }
    if (presence != kPresent || rank == rank_) continue;
    const int locked = ::pthread_mutex_trylock(&page(rank).alive);
    if (locked == EBUSY) continue;
    // Unlocking without a repair makes the mutex unusable, which tells the next rank that looks
    // the same.
    if (locked == 0 || locked == EOWNERDEAD) ::pthread_mutex_unlock(&page(rank).alive);
    if (page(rank).presence.load() != kPresent) continue;
    throw PeerError(
        str("rank ", options_.name_of(rank), " (process ", page(rank).process, ") has died"),
        options_.name_of(rank));
  }
}

}  // namespace dtrain::dist

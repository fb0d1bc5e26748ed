#pragma once

// Where the ranks of one host tell each other how far they are: each rank posts its operations, one
// after the other, with a little data, and says which ones it has finished. Also which ranks live,
// and why they all have to stop.
//
// The operation of a number n lies in slot n mod kSlots of each rank. A rank uses a slot again when
// all ranks have finished what lay there, so that a rank may post a few operations before it looks
// at those of the others. Every rank compares what the others post with its own: ranks at different
// operations are an error, not wrong sums.
//
// A rank that dies is noticed by the robust mutex that its communication thread holds: the kernel
// marks it however the process ends, for a zombie and across pid namespaces too, which kill(pid, 0)
// and pidfd_open() do not do.
//
// Errors: CommError, with the reason for which the ranks stop, from whatever waits. Thread-safety:
// one thread at a time posts, waits and finishes; fail(), failure() and leave() may be called
// from any.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "dist/communicator.h"
#include "dist/peer_error.h"
#include "dist/shared_segment.h"
#include "dist/shared_wait.h"
#include "dist/traffic.h"

namespace dtrain::dist {

// What all ranks must have in common at an operation. Small, because it travels with the data.
struct SharedOperation {
  Collective kind = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  at::ScalarType dtype = at::kByte;
  int root = 0;
  int64_t bytes = 0;
  // SharedParts::place of a tensor that is reduced where it lies; 0: any other operation
  uint64_t place = 0;
  bool operator==(const SharedOperation&) const = default;
};

class SharedBoard {
 public:
  static constexpr uint64_t kSlots = 8;
  static constexpr int64_t kSlotBytes = 32 << 10;

  // Over the ranks of `comm`, all on one host. Collective.
  SharedBoard(Communicator& comm, const SharedMemoryOptions& options);

  // The calling thread stands for this rank until it ends: if it ends without leave(), the rank
  // has died.
  void attend();
  void leave() noexcept;  // this rank posts nothing more, and what it waits for ends

  // Posting: begin() gives the room for the data, once all ranks have finished what lay there.
  // Returns to the caller after post() without waiting.
  std::byte* begin(const Patience&);
  void post(const SharedOperation&) noexcept;
  // Waits until all ranks have posted the operation `number` (1, 2, ...), and compares it with
  // this rank's.
  void wait_for_posts(uint64_t number, const Patience&);
  const std::byte* data(int rank, uint64_t number) const;
  // This rank no longer needs the others' data of operations up to `number`; and waiting until no
  // rank does.
  void finish(uint64_t number) noexcept;
  void wait_for_finish(uint64_t number, const Patience&);
  uint64_t posted() const { return posted_; }

  // Ends the waits of all ranks; the first reason counts. `peer`: as of PeerError.
  void fail(std::string_view reason, std::optional<int> peer = std::nullopt) noexcept;
  bool failed() const noexcept;
  PeerError failure() const;  // the reason, with the rank that gave it. Requires failed()

 private:
  struct Slot;
  struct Page;
  Page& page(int rank) const;
  Slot& slot(int rank, uint64_t number) const;
  void throw_if_stopped(int awaited) const;
  void wake_all() noexcept;

  template <typename Reached>
  void wait_for(int rank, const Patience&, Reached);

  const int rank_, size_;
  const SharedMemoryOptions options_;
  std::unique_ptr<SharedSegment> segment_;
  uint64_t posted_ = 0;
  uint64_t finished_by_all_ = 0;  // at least
  std::atomic<bool> left_ = false;
};

}  // namespace dtrain::dist

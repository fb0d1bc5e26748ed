#pragma once

// The tensors that ranks of one host reduce where they lie. Each allocate() makes a shared segment
// of its own, which the kernel frees when the tensor is gone on every rank: a phase of training
// that has buckets of its own leaves nothing behind, and there is no heap to manage.
//
// Thread-safety: one thread allocates; tensors may be freed, and parts looked up, on any thread.

#include <torch/types.h>

#include <map>
#include <memory>
#include <mutex>

#include "dist/shared_segment.h"

namespace dtrain::dist {

// Where the bytes of a tensor lie: at the same offset in the part of each rank.
struct SharedParts {
  // The same on all ranks for the same bytes of one allocate(); 0: not in the arena
  uint64_t place = 0;
  std::byte* first = nullptr;  // address in the part of rank 0
  int64_t stride = 0;          // from one rank to the next
  std::byte* of(int rank) const { return first + rank * stride; }
};

class SharedArena {
 public:
  explicit SharedArena(SharedMemoryOptions options) : options_(std::move(options)) {}

  // A CPU tensor, uninitialized (at first: zeros), that begins at a page. `comm` carries what the
  // ranks tell each other. The tensor may outlive the arena. DeviceError on all ranks. Collective.
  at::Tensor allocate(Communicator& comm, at::IntArrayRef sizes, const at::TensorOptions& options);

  // Finds `bytes` bytes that begin at `data`, which this rank allocated and has not freed.
  SharedParts find(const void* data, int64_t bytes) const;

 private:
  struct Entry {
    std::shared_ptr<SharedSegment> segment;
    uint64_t number;  // number of the allocation; the same on all ranks
    int64_t bytes;
  };
  // Outlives the arena, because each tensor removes its entry.
  struct Registry {
    mutable std::mutex mutex;
    std::map<const std::byte*, Entry> by_address;  // key: address of this rank's part
  };

  const SharedMemoryOptions options_;
  uint64_t allocations_ = 0;
  std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
};

}  // namespace dtrain::dist

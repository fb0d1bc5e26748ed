#pragma once

// What NCCL moves between the processes of one host: memory that they share, with a slot for each
// rank, and a barrier. Sums are folded in the order of the ranks, in float32 for narrower types.
//
// Thread-safety: one operation at a time; abort() from any thread.

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace fake_nccl {

class Exchange {
 public:
  // `name`: of shared memory, the same for all ranks and no other communicator.
  Exchange(const std::string& name, int rank, int size);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // As ncclAllReduce() and the others; `count`: elements, as these take it. They return false if a
  // rank has left, and end the process if one does not come for too long.
  bool all_reduce(const void* from, void* to, size_t count, ncclDataType_t, ncclRedOp_t);
  bool reduce_scatter(const void* from, void* to, size_t count, ncclDataType_t, ncclRedOp_t);
  bool all_gather(const void* from, void* to, size_t count, ncclDataType_t);
  bool broadcast(const void* from, void* to, size_t count, ncclDataType_t, int root);

  // Ends the process if the ranks give different numbers: of what all of them do alike. False if a
  // rank has left.
  bool agree(uint64_t number, const char* what);

  void abort();  // for all ranks

 private:
  struct Head;

  char* slot(int rank) const;
  bool meet();
  // Moves `count` elements in pieces that fit: `give` writes to this rank's slot, and `take` reads
  // all slots, between barriers.
  bool in_pieces(size_t count, size_t most, const std::function<void(size_t at, size_t n)>& give,
                 const std::function<void(size_t at, size_t n)>& take);
  void fold(void* to, size_t skipped, size_t count, ncclDataType_t, ncclRedOp_t) const;

  const std::string name_;
  const int rank_, size_;
  Head* head_ = nullptr;
};

size_t width(ncclDataType_t);  // bytes

}  // namespace fake_nccl

#pragma once

// A flat buffer of gradients and the all-reduce that sums it over ranks. On the way its values may
// have a narrower dtype (dist.wire), which halves the bytes: they are rounded once before they are
// sent, and the communicator rounds their sum once more (reduce_in_rank_order). With u = 2^-8 for
// bfloat16 and 2^-11 for float16, a sum then differs from the sum of the gradients g of the ranks
// by at most u (2 + u) Σ |g|, if nothing overflows or underflows. A communicator that adds in
// several steps, as between hosts or in NCCL's ring, rounds once for each of them.
//
// The gradients of bfloat16 have the range of float32. float16 ends at 65504: sums beyond that are
// infinite, and the loss scaling of fp16 skips the step and halves the scale (train/grad_scaler.h).
//
// Thread-safety: as the communicator. Errors: CommError.

#include <torch/types.h>

#include <cstdint>
#include <optional>

#include "config/choices.h"
#include "dist/communicator.h"

namespace dtrain::dist {

class BucketTransfer {
 public:
  // Makes a zeroed buffer of `elements` values of options.dtype(). `wire`: the dtype on the way; it
  // has an effect if it is narrower and there is more than one rank. Borrows the communicator.
  // Collective, as Communicator::allocate() is.
  BucketTransfer(Communicator&, int64_t elements, const at::TensorOptions&,
                 std::optional<at::ScalarType> wire);

  const at::Tensor& buffer() const { return buffer_; }  // 1-D
  void send();  // begins to sum; the buffer must not change until receive()
  // the buffer has the sums over ranks, on the current stream; does nothing if nothing was sent
  void receive();
  void abandon() { sent_ = false; }  // what was sent is not received
  int64_t wire_bytes() const;        // that this rank gives to all_reduce
  int64_t memory_bytes() const;      // the buffer, and what travels in its place

 private:
  Communicator* communicator_;
  at::Tensor buffer_;
  at::Tensor narrow_;  // what travels; undefined: the buffer itself
  Work work_;
  bool sent_ = false;
};

// None: gradients travel as they are.
std::optional<at::ScalarType> wire_dtype(config::Wire);

// The bytes of an element of `dtype` on the way.
int64_t wire_item_bytes(at::ScalarType dtype, std::optional<at::ScalarType> wire, int ranks);

}  // namespace dtrain::dist

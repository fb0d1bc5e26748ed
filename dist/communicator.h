#pragma once

// The one interface through which ranks exchange data: collectives on tensors, which carry count,
// dtype and device. Implementations: MPI and shared memory for host tensors, and hierarchical,
// which is made of both; NCCL for GPUs, staged for GPU tensors that travel through the host, and
// one for a rank that is alone. In tests, ranks are threads (tests/support/thread_world.h).

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "trace/recorder.h"

namespace dtrain::dist {

enum class ReduceOp : uint8_t { kSum, kMax };

struct TimeSpan {
  trace::Time began = 0, ended = 0;
};

// Move-only handle of one operation.
class [[nodiscard]] Work {
 public:
  using Wait = std::function<std::optional<TimeSpan>()>;

  Work() = default;  // done already
  explicit Work(Wait wait) : wait_(std::move(wait)) {}
  Work(Work&&) = default;
  Work& operator=(Work&&) = default;
  // Idempotent; throws what the operation threw. The first call returns when the operation ran, the
  // wait for ranks that began it later included; none: nothing was carried, or it may still run on
  // the device.
  std::optional<TimeSpan> wait() { return wait_ ? std::exchange(wait_, nullptr)() : std::nullopt; }

 private:
  Wait wait_;
};

// Order: every rank issues the same operations in the same order. They run in that order on the
// communicator's own stream or thread. Work::wait() orders the caller's current CUDA stream (for
// CPU tensors: the host) after the operation.
//
// Tensors must be contiguous and must not overlap (`out` and `in`); the caller may drop them before
// wait(). Their dtypes are float64, float32, bfloat16, float16, int64, and uint8, which cannot be
// reduced. The result of a reduction has the same bits on every rank.
//
// Errors: CommError. After one, or after abort(), the communicator can no longer be used.
// Thread-safety: one thread issues operations and waits. Any thread may call abort() and check().
class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Uninitialized memory that this communicator reduces fastest, aligned to 64 bytes at least. By
  // default that is any memory. Where it is shared between ranks, a tensor of it, or a part of one,
  // may be all-reduced or broadcast only together with the same part on all other ranks (CommError
  // otherwise). Tensors of other memory work too, but slower. The memory is freed with the last
  // tensor that uses it, before or after the communicator is destroyed, so that each phase of
  // training can have its own. DeviceError on all ranks if there is too little on any. Collective.
  virtual at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) {
    return at::empty(sizes, options);
  }

  virtual Work all_reduce(at::Tensor inout, ReduceOp op) = 0;
  virtual Work all_gather(at::Tensor out, at::Tensor in) = 0;  // out.numel() == size * in.numel()
  virtual Work broadcast(at::Tensor inout, int root) = 0;
  virtual void barrier() = 0;
  // Unblocks every local waiter; idempotent
  virtual void abort(std::string_view reason) noexcept = 0;
  virtual std::string_view name() const = 0;  // "mpi", "nccl", "shared_memory", ...

  // Throws CommError if the communicator is known to have failed, and does not wait. For a host
  // that waits for the device: an operation that a network error has stopped never ends there.
  virtual void check() {}

  // Whether operations can be recorded in a CUDA graph (device/cuda_graph.h) in place of being
  // done. Every rank records the same ones, and launches its graph as often as the others.
  virtual bool can_be_captured() const { return false; }
  // The operations that were recorded since the last call, as a function that counts them; it is
  // called for each launch. Empty: none is counted.
  virtual std::function<void()> captured() { return {}; }

 private:
  int rank_, size_;
};

// The arithmetic of reductions on the host: out[i] = by_rank[0][i] op by_rank[1][i] op ..., in this
// order, so that the result depends on the inputs alone. float16 and bfloat16 are reduced in
// float32 and rounded once, int64 wraps around, and a NaN wins kMax. `out` may be one of the
// inputs. Throws Error for a dtype that cannot be reduced. Pure.
void reduce_in_rank_order(at::ScalarType dtype, ReduceOp op, std::span<const void* const> by_rank,
                          void* out, int64_t elements);

}  // namespace dtrain::dist

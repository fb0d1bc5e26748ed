#pragma once

// The one place where ranks meet. Tensors carry count, dtype and device; there are no raw counts.
//
// Contract of all_reduce: the same bits on every rank. Order: every rank issues the same operations in the same order.
// Operations run in the order of issue, on the communicator's own stream or thread; Work::wait() orders the current
// CUDA stream of the caller (CPU tensors: the host) after the operation. Tensors must be contiguous and stay alive
// until then. dtypes: float64, float32, bfloat16, float16 (reduced in float32), int64, uint8 (no reduction). Errors:
// CommError; after one, or after abort(), the communicator is of no more use. Thread-safety: one thread issues; abort()
// may be called from any thread.

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string_view>

namespace dtrain::dist {

enum class ReduceOp { kSum, kMax, kMin };

// Move-only receipt of one operation. wait() is idempotent and throws what the operation threw.
class [[nodiscard]] Work {
 public:
  Work() = default;  // done already
  explicit Work(std::function<void()> wait) : wait_(std::move(wait)) {}
  Work(Work&&) = default;
  Work& operator=(Work&&) = default;
  void wait() {
    if (wait_) std::exchange(wait_, nullptr)();
  }

 private:
  std::function<void()> wait_;
};

class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  int rank() const { return rank_; }
  int size() const { return size_; }

  // Memory that this communicator reduces best (uninitialised). Plain here; shared or registered memory later.
  virtual at::Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options) {
    return at::empty(sizes, options);
  }

  virtual Work all_reduce(at::Tensor inout, ReduceOp op) = 0;
  virtual Work reduce_scatter(at::Tensor out, at::Tensor in) = 0;  // in.numel() == size * out.numel(); sum
  virtual Work all_gather(at::Tensor out, at::Tensor in) = 0;      // out.numel() == size * in.numel()
  virtual Work broadcast(at::Tensor inout, int root) = 0;
  virtual void barrier() = 0;
  virtual void abort(std::string_view reason) noexcept = 0;  // unblocks every local waiter; idempotent
  virtual std::string_view name() const = 0;                 // "mpi", "nccl", "staged", "thread"

 private:
  int rank_, size_;
};

}  // namespace dtrain::dist

#pragma once

// The memory of the tensors that a piece of code makes: its peak, counted allocation by allocation,
// so that it is exact and the same each time, where the resident memory of a process also has what
// was used before and is not given back.
//
// Counts what the calling thread allocates, and what autograd's threads allocate for it. Memory
// that another thread frees is counted until its address is allocated again. Buffers of libraries
// such as oneDNN and cuDNN are not tensors and are not counted. LibTorch reports only while a
// TensorMemory lives, so all other code pays nothing. Thread-safety: one at a time per thread.

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace dtrain::device {

class TensorMemory {
 public:
  // Each change of what is counted: memory at the address is allocated, or (bytes < 0) freed, after
  // which `held` bytes are held. Called on the thread that allocates or frees, one call at a time;
  // it must not allocate tensors.
  using Listener = std::function<void(const void* address, int64_t bytes, int64_t held)>;

  explicit TensorMemory(Listener = {});
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  int64_t held() const;  // bytes that were allocated since construction and are not freed yet
  int64_t peak() const;  // the most that was held

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The memory of all of them; memory that they share counts each time. Pure.
int64_t bytes_of(const std::vector<at::Tensor>&);

}  // namespace dtrain::device

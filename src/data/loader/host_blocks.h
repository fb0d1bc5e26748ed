#pragma once

// A pool of page-locked host memory blocks for batches on their way to a device. A block is free,
// then filled by the reader threads, then copied to the device, then free again. Thread-safety: any
// thread may call take() and give_back(); the other methods are for the thread that
// calls Loader::next().

#include <torch/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "data/loader/device_stage.h"

namespace dtrain::data {

class HostBlocks {
 public:
  // Allocates `count` blocks of `bytes` bytes
  HostBlocks(DeviceStage&, int64_t count, int64_t bytes);

  at::Tensor take();                 // a free block, uint8; undefined if there is none
  void give_back(at::Tensor block);  // frees a block that was not copied; it may have another size
  // The block becomes free when the copy is done
  void copying(at::Tensor block, std::unique_ptr<HostCopy>);
  // Frees the blocks whose copies are done; returns whether there were any. Waits only if all
  // blocks are being copied.
  bool reclaim();

 private:
  struct Copying {
    at::Tensor block;
    std::unique_ptr<HostCopy> copy;
  };

  const size_t count_;
  std::mutex mutex_;
  std::deque<at::Tensor> free_;  // guarded by mutex_
  std::deque<Copying> copying_;  // oldest first
};

}  // namespace dtrain::data

#pragma once

// The page-locked blocks of host memory on the way to a device. A block goes round: free, filled by the readers, being
// copied, free. Thread-safety: take() and give_back() from any thread; the rest from the one that calls Loader::next().

#include <torch/torch.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "data/loader/device_stage.h"

namespace dtrain::data {

class HostBlocks {
 public:
  HostBlocks(DeviceStage&, int64_t count, int64_t bytes);  // of so many bytes each

  at::Tensor take();                 // [bytes] uint8; undefined if none is free
  void give_back(at::Tensor block);  // not copied after all; any size
  void copying(at::Tensor block, std::unique_ptr<HostCopy>);
  // Blocks whose copy is over are free again; returns whether there were any. Waits only if all are being copied.
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

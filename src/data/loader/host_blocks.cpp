#include "data/loader/host_blocks.h"

#include <utility>

namespace dtrain::data {

HostBlocks::HostBlocks(DeviceStage& stage, int64_t count, int64_t bytes)
    : count_(static_cast<size_t>(count)) {
  for (int64_t i = 0; i < count; ++i) free_.push_back(stage.host_memory(bytes));
}

at::Tensor HostBlocks::take() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return {};
  at::Tensor block = std::move(free_.front());
  free_.pop_front();
  return block;
}

void HostBlocks::give_back(at::Tensor block) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(block));
}

void HostBlocks::copying(at::Tensor block, std::unique_ptr<HostCopy> copy) {
  copying_.push_back({std::move(block), std::move(copy)});
}

bool HostBlocks::reclaim() {
  bool freed = false;
  while (!copying_.empty()) {
    Copying& oldest = copying_.front();
    if (copying_.size() == count_) oldest.copy->wait();
    if (!oldest.copy->done()) break;
    give_back(std::move(oldest.block));
    copying_.pop_front();
    freed = true;
  }
  return freed;
}

}  // namespace dtrain::data

#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dtrain::models {

// Int64 [B] on the device without stopping the host: from pinned memory, which its allocator keeps until the copy is
// done.
inline at::Tensor ids_on(at::Device device, const std::vector<int64_t>& ids) {
  const auto options = at::TensorOptions().dtype(at::kLong).pinned_memory(device.is_cuda());
  const at::Tensor host = at::empty({static_cast<int64_t>(ids.size())}, options);
  std::copy(ids.begin(), ids.end(), host.mutable_data_ptr<int64_t>());
  return host.to(device, /*non_blocking=*/true);
}

}  // namespace dtrain::models

#pragma once

// LibTorch's autocast as one value and one guard: whether operations on a kind of device are
// computed in a lower precision, and in which. A forward pass turns it on, a layer that must not be
// cast turns it off, and a recomputation in backward restores what forward had.

#include <torch/types.h>

namespace dtrain::layers {

struct AutocastState {
  at::DeviceType device = at::kCPU;
  bool enabled = false;
  at::ScalarType dtype = at::kBFloat16;  // what operations are cast to when enabled
};

AutocastState current_autocast(at::DeviceType);  // state of the calling thread

// Sets the state for its scope and restores the previous one afterwards. Leaving the outermost
// guard clears the cache of cast weights, which would otherwise outlive the step and hide an update
// of the weights.
// Thread-safety: affects the calling thread only, like autocast itself.
class AutocastGuard {
 public:
  explicit AutocastGuard(const AutocastState&);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  AutocastState previous_;
};

}  // namespace dtrain::layers

#pragma once

// Autocast for one forward pass. Leaving the scope clears the cache of cast weights, which otherwise outlives the step.
// With a precision that needs no casts (tf32, fp32, fp64) autocast is off inside the scope.
// Thread-safety: of the calling thread only, like autocast itself.

#include <torch/torch.h>

#include "train/precision.h"

namespace dtrain::train {

class Autocast {
 public:
  Autocast(Precision, at::Device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_;
  at::ScalarType was_dtype_;
};

}  // namespace dtrain::train

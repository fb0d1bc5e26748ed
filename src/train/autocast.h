#pragma once

// Autocast for one forward pass. Leaving the scope clears the cache of cast weights, which otherwise outlives the step.

#include <torch/torch.h>

namespace dtrain::train {

enum class Precision { kFp16, kBf16, kTf32, kFp32, kFp64 };

class Autocast {
 public:
  Autocast(Precision, at::Device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool active_, was_enabled_;
  at::ScalarType was_dtype_;
};

}  // namespace dtrain::train

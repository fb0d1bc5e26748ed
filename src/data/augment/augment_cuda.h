#pragma once

// Augmentation on a GPU. Takes raw pointers only, so that augment.cu needs no torch header.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "data/augment/sample_augment.h"

namespace dtrain::data {

struct AugmentBatch {
  const uint8_t* images = nullptr;          // [samples, H, W, 3]
  const SampleAugment* augments = nullptr;  // [samples]
  int64_t samples = 0;
  ImageShape shape;
  int32_t side = 0;  // S
  Normalization norm{};
  uint64_t* grey_sums = nullptr;  // [samples], scratch memory; null if no sample's contrast changes
  float* out = nullptr;           // [samples, S, S, 3]
};

// Enqueues the kernels on `stream`. All pointers are to memory of the current device. Returns the
// launch error.
cudaError_t augment(const AugmentBatch&, cudaStream_t stream);

}  // namespace dtrain::data

#pragma once

// The mask of keyed dropout: one body for CPU and GPU, in integers up to one exact comparison, so that both masks are
// the same.

#include <cstdint>

#include "core/host_device.h"
#include "core/random.h"

namespace dtrain::layers {

struct DropoutKey {
  uint64_t seed;
  int64_t step, layer;
};

// What all elements of one sample share.
DTRAIN_HD inline uint64_t sample_key(const DropoutKey& key, int64_t sample_id) {
  return keyed(static_cast<uint64_t>(Purpose::kDropout), key.seed, static_cast<uint64_t>(key.step),
               static_cast<uint64_t>(key.layer), static_cast<uint64_t>(sample_id));
}

// Whether element `element` of the sample, counted in C order, is kept when `p` of them are dropped.
DTRAIN_HD inline bool keeps(uint64_t sample, int64_t element, float p) {
  return uniform01(keyed(sample, static_cast<uint64_t>(element))) >= p;
}

// mask[b * elements + e] = 1 or 0, on the GPU: ids [samples] and mask are device memory of the current device, the work
// is queued on `stream` (a cudaStream_t). Throws DeviceError when the launch fails, or in a build without GPU code.
void fill_dropout_mask_on_gpu(const DropoutKey&, float p, const int64_t* ids, int64_t samples, int64_t elements,
                              uint8_t* mask, void* stream);

}  // namespace dtrain::layers

#pragma once

// The mask of keyed dropout. CPU and GPU share this code, which uses integers up to one exact
// comparison, so their masks are identical.
//
// Reason: exactness, not speed. An element is dropped or kept by its key alone, on any device and
// on any number of ranks (promise 1 of docs/promises.md). Delete it when LibTorch draws by a key.

#include <cstdint>

#include "core/host_device.h"
#include "core/random.h"
#include "kernels/launch_check.h"

namespace dtrain::kernels {

struct DropoutKey {
  uint64_t seed;
  int64_t step, layer;
};

// Where a kernel reads the key: the addresses of its numbers are arguments of the kernel, not the
// numbers, so that the same launch makes another mask in another step.
struct DropoutKeyPlace {
  const int64_t *seed, *step;
  int64_t layer;
  DTRAIN_HD DropoutKey read() const { return {static_cast<uint64_t>(*seed), *step, layer}; }
};

// The part of the key that all elements of a sample share.
DTRAIN_HD inline uint64_t sample_key(const DropoutKey& key, int64_t sample_id) {
  return keyed(static_cast<uint64_t>(Purpose::kDropout), key.seed, static_cast<uint64_t>(key.step),
               static_cast<uint64_t>(key.layer), static_cast<uint64_t>(sample_id));
}

// Whether the element, counted in C order within the sample, is kept when elements are dropped with
// probability p.
DTRAIN_HD inline bool keeps(uint64_t sample, int64_t element, float p) {
  return uniform01(keyed(sample, static_cast<uint64_t>(element))) >= p;
}

// Sets mask[b * elements + e] to `kept` or 0 on the GPU. The numbers of the key, ids [samples] and
// mask are memory of the current device; the kernel is queued on `stream` (a cudaStream_t).
// DeviceError in a build without GPU code. T: float, double, c10::Half or c10::BFloat16.
template <typename T>
[[nodiscard]] LaunchResult fill_dropout_mask_on_gpu(const DropoutKeyPlace&, float p,
                                                    const int64_t* ids, int64_t samples,
                                                    int64_t elements, T kept, T* mask,
                                                    void* stream);

}  // namespace dtrain::kernels

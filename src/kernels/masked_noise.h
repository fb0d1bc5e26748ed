#pragma once

// The arithmetic of layers/masked_noise.h, shared by CPU and GPU; it uses integers up to
// exact conversions.
//
// Reason: exactness, not speed. A sample has the same noise and the same hidden rows on any device
// and on any number of ranks (promise 1 of docs/promises.md). Delete it when LibTorch draws by a
// key, or when no task hides rows.

#include <cstdint>

#include "core/host_device.h"
#include "core/random.h"
#include "kernels/launch_check.h"
#include "kernels/lengths.h"

namespace dtrain::kernels {

struct MaskedNoise {
  float noise = 0;   // standard deviation, in the units of the rows
  float share = 0;   // probability that a block is hidden
  int32_t span = 1;  // rows per block, at least 1
};

struct NoiseKey {
  uint64_t seed;
  int64_t epoch;
};

// The hidden blocks of one sample.
struct HiddenBlocks {
  uint64_t key;
  int64_t start;   // how many rows of the first block are before the sample
  int64_t always;  // the block that is always hidden
};

DTRAIN_HD inline HiddenBlocks hidden_blocks(const MaskedNoise& m, const NoiseKey& of,
                                            int64_t sample_id, int64_t length) {
  const uint64_t key = keyed(static_cast<uint64_t>(Purpose::kAugmentation), of.seed,
                             static_cast<uint64_t>(of.epoch), static_cast<uint64_t>(sample_id));
  const int64_t start = static_cast<int64_t>(keyed(key, 0) % static_cast<uint64_t>(m.span));
  const int64_t blocks = length > 0 ? (length - 1 + start) / m.span + 1 : 1;
  return {key, start, static_cast<int64_t>(keyed(key, 1) % static_cast<uint64_t>(blocks))};
}

DTRAIN_HD inline bool is_hidden(const MaskedNoise& m, const HiddenBlocks& blocks, int64_t row) {
  const int64_t block = (row + blocks.start) / m.span;
  return block == blocks.always ||
         uniform01(keyed(blocks.key, 2, static_cast<uint64_t>(block))) < m.share;
}

// The noise of an element, counted in C order within the sample.
DTRAIN_HD inline float keyed_normal(uint64_t key, int64_t element) {
  const uint64_t a = keyed(key, 3, static_cast<uint64_t>(element)), b = mix64(a);
  constexpr uint64_t kEven = 0x0000ffff0000ffffULL;
  // Two sums of four
  const uint64_t pairs = (a & kEven) + ((a >> 16) & kEven) + (b & kEven) + ((b >> 16) & kEven);
  const int32_t sum =
      static_cast<int32_t>(static_cast<uint32_t>(pairs) + static_cast<uint32_t>(pairs >> 32));
  // Mean 8 · 65535 / 2; variance 8 · (65536² - 1) / 12.
  return static_cast<float>(sum - 262140) * (1.0f / 53509.82f);
}

template <typename T>
DTRAIN_HD inline T noised(const MaskedNoise& m, const HiddenBlocks& blocks, T value,
                          int64_t element) {
  return m.noise == 0 ? value : value + static_cast<T>(m.noise * keyed_normal(blocks.key, element));
}

// A batch in plain memory; on the GPU, memory of the current device.
template <typename T>
struct NoiseBatch {
  const T* rows;  // [samples, longest, features]
  const int64_t *lengths, *ids;
  // Parts of the key that the kernel reads, so that the same launch draws others in another epoch
  const int64_t *seed, *epoch;
  int64_t samples, longest, features;
  T* out;        // like rows; zero beyond the lengths and in hidden rows
  bool* hidden;  // [samples, longest]; false beyond the lengths

  DTRAIN_HD NoiseKey key() const { return {static_cast<uint64_t>(*seed), *epoch}; }
  DTRAIN_HD int64_t length(int64_t sample) const { return valid_length(lengths[sample], longest); }
};

// Queues the kernel, which writes all of `out` and `hidden`, on `stream` (a cudaStream_t).
// DeviceError in a build without GPU code.
template <typename T>
[[nodiscard]] LaunchResult hide_and_noise_on_gpu(const MaskedNoise&, const NoiseBatch<T>&,
                                                 void* stream);

}  // namespace dtrain::kernels

#pragma once

// The layout of a batch as one block of bytes, so that one copy moves it to a device. Targets and
// ids come first. After them, images have their random transforms (SampleAugment) and stored
// pixels; rows have their lengths, and their values padded with zeros.

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "data/augment/sample_augment.h"
#include "data/sample_spec.h"
#include "data/store.h"

namespace dtrain::data {

struct PackedBatch {
  SampleSpec::Kind kind = SampleSpec::Kind::kImage;
  std::vector<int64_t> inputs;   // images [B, H, W, 3], uint8; rows [B, longest, F], float32
  std::vector<int64_t> targets;  // [B, ...]
  Element target_element = Element::kFloat32;
  bool needs_mean = false;  // whether any image's contrast may change

  bool rows() const { return kind == SampleSpec::Kind::kRows; }
  int64_t samples() const { return inputs.front(); }
  int64_t target_bytes() const { return product(targets) * size_of(target_element); }
  int64_t input_bytes() const { return product(inputs) * (rows() ? 4 : 1); }
  // Byte offsets of the parts, multiples of 8.
  int64_t ids_at() const { return aligned(target_bytes()); }
  int64_t augments_at() const {
    return ids_at() + samples() * static_cast<int64_t>(sizeof(int64_t));
  }
  int64_t lengths_at() const { return augments_at(); }
  int64_t inputs_at() const {
    return aligned(augments_at() +
                   samples() *
                       static_cast<int64_t>(rows() ? sizeof(int64_t) : sizeof(SampleAugment)));
  }
  int64_t bytes() const { return inputs_at() + input_bytes(); }

 private:
  static int64_t product(const std::vector<int64_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  }
  static int64_t aligned(int64_t bytes) { return (bytes + 7) / 8 * 8; }
};

// The layout of a batch of these samples. Samples that are too long count as empty: they are never
// read. The longest length is rounded up to the next of `length_classes` (order/length_classes.h).
PackedBatch packed_batch(const Store&, const SampleSpec&, bool augment,
                         const std::vector<int64_t>& ids,
                         const std::vector<int64_t>& length_classes = {});

}  // namespace dtrain::data

#pragma once

// What a loader gives and a task takes: the tensors of one micro-batch of one rank, and which samples they are.

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/schema.h"

namespace dtrain::data {

struct Batch {
  // On the device. Images [B, 3, S, S] float32, channels_last; rows [B, longest, F] float32, zero beyond a sample's
  // length ([B, ...] as stored where the size is fixed).
  at::Tensor inputs;
  at::Tensor targets;        // [B, ...] float32 or int64; of variable size [B, longest], padded with -1
  at::Tensor lengths;        // [B] int64, rows of each input; undefined for images
  int64_t rows = 0;          // valid rows of this micro-batch: padding waste is 1 - rows / (B * longest)
  std::vector<int64_t> ids;  // B sample ids (in the store)
  struct LeftOut {
    int64_t id = 0;
    std::string reason;  // with the sample's name
  };
  std::vector<LeftOut> left_out;  // skip_bad: the bad samples of this batch, in their order
  int64_t epoch = 0;
  int64_t step = 0;            // optimizer step (0-based)
  int64_t micro = 0;           // micro-step of it
  int64_t micro_steps = 1;     // of this optimizer step, equal on all ranks
  int64_t global_samples = 0;  // of the whole optimizer step, all ranks
  double read_seconds = 0;     // time next() waited for the readers
  int64_t samples() const { return static_cast<int64_t>(ids.size()); }
};

inline at::ScalarType scalar_type(Element element) {
  return element == Element::kFloat32 ? at::kFloat : element == Element::kInt64 ? at::kLong : at::kByte;
}

}  // namespace dtrain::data

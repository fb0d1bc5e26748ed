#pragma once

// One micro-batch of one rank, from the loader to the task: its tensors and the ids of its samples.

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/schema.h"

namespace dtrain::data {

struct Batch {
  // The tensors are on the loader's device. Images: [B, 3, S, S] float32, channels_last. Rows: [B,
  // longest, F] float32, zero after the last row of each sample; [B, ...] as stored if samples have
  // a fixed size.
  at::Tensor inputs;
  at::Tensor targets;  // [B, ...] float32 or int64; variable size: [B, longest], padded with -1
  at::Tensor lengths;  // [B] int64, number of rows of each input; undefined for images
  int64_t rows = 0;    // number of rows that are not padding, of B * longest
  std::vector<int64_t> ids;  // B ids in the store
  at::Tensor sample_ids;     // the same as [B] int64; what did not come from a loader may lack it
  struct LeftOut {
    int64_t id = 0;
    std::string reason;  // includes the sample's name
  };
  std::vector<LeftOut> left_out;  // with LoaderOptions::skip_bad: the bad samples, in batch order
  int64_t epoch = 0;
  int64_t step = 0;            // optimizer step, 0-based
  int64_t micro = 0;           // micro-step of the optimizer step, 0-based
  int64_t micro_steps = 1;     // micro-steps of this optimizer step; equal on all ranks
  int64_t global_samples = 0;  // samples of this optimizer step on all ranks
  int64_t samples() const { return static_cast<int64_t>(ids.size()); }
};

inline at::ScalarType scalar_type(Element element) {
  return element == Element::kFloat32 ? at::kFloat
         : element == Element::kInt64 ? at::kLong
                                      : at::kByte;
}

}  // namespace dtrain::data

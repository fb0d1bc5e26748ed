#pragma once

// The tensors of a batch, before they are the batch's.

#include <torch/types.h>

#include <cstdint>

#include "data/batch.h"
#include "data/loader/packed_batch.h"

namespace dtrain::data {

struct BatchTensors {
  at::Tensor inputs, targets, lengths, ids;  // Batch::inputs, targets, lengths and sample_ids
};

// New tensors for a batch of this layout; their values are undefined. `image_size`: side of the images in pixels.
BatchTensors make_tensors(const PackedBatch&, int64_t image_size, at::Device);

void put(BatchTensors, Batch&);  // as the batch's tensors

}  // namespace dtrain::data

#pragma once

// The tensors of a batch: new ones for each batch, or buffers that are used again for every batch
// of the same shape.

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/loader/packed_batch.h"

namespace dtrain::data {

struct BatchTensors {
  at::Tensor inputs, targets, lengths, ids;  // Batch::inputs, targets, lengths and sample_ids
};

// New tensors for a batch of this layout; their values are undefined. `image_size`: side of the
// images in pixels.
BatchTensors make_tensors(const PackedBatch&, int64_t image_size, at::Device);

void put(BatchTensors, Batch&);                               // sets the batch's tensors
BatchTensors tensors_of(const Batch&);                        // the same tensors
BatchTensors copies(const BatchTensors&);                     // each tensor gets its own memory
void copy(const BatchTensors& from, const BatchTensors& to);  // requires equal shapes

// Buffers, one set for each shape of a batch, so that each batch of a shape has its values at the
// same addresses: what a CUDA graph needs. A batch is valid until the next one of its shape is
// put there.
//
// They are for few shapes. When there are `most` of them, batches of other shapes (the last batch
// of an epoch, lengths that data.length_classes does not round) get new tensors.
//
// Thread-safety: one thread.
class StaticBuffers {
 public:
  StaticBuffers(int64_t image_size, at::Device device, size_t most = 16)
      : image_size_(image_size), device_(device), most_(most) {}

  BatchTensors of(const PackedBatch&);
  size_t shapes() const { return buffers_.size(); }

 private:
  using Shape = std::pair<std::vector<int64_t>, std::vector<int64_t>>;  // inputs, then targets

  const int64_t image_size_;
  const at::Device device_;
  const size_t most_;
  std::map<Shape, BatchTensors> buffers_;
};

}  // namespace dtrain::data

#include "data/loader/batch_tensors.h"

#include <ATen/ATen.h>

namespace dtrain::data {

BatchTensors make_tensors(const PackedBatch& packed, int64_t image_size, at::Device device) {
  const auto options = at::TensorOptions().device(device);
  const int64_t samples = packed.samples();
  BatchTensors made;
  made.targets = at::empty(packed.targets, options.dtype(scalar_type(packed.target_element)));
  made.ids = at::empty({samples}, options.dtype(at::kLong));
  if (packed.rows()) {
    made.inputs = at::empty(packed.inputs, options.dtype(at::kFloat));
    made.lengths = at::empty({samples}, options.dtype(at::kLong));
  } else {
    made.inputs =
        at::empty({samples, 3, image_size, image_size},
                  options.dtype(at::kFloat).memory_format(at::MemoryFormat::ChannelsLast));
  }
  return made;
}

void put(BatchTensors tensors, Batch& batch) {
  batch.inputs = std::move(tensors.inputs);
  batch.targets = std::move(tensors.targets);
  batch.lengths = std::move(tensors.lengths);
  batch.sample_ids = std::move(tensors.ids);
}

BatchTensors tensors_of(const Batch& batch) {
  return {batch.inputs, batch.targets, batch.lengths, batch.sample_ids};
}

BatchTensors copies(const BatchTensors& t) {
  const auto copy = [](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.clone() : tensor;
  };
  return {copy(t.inputs), copy(t.targets), copy(t.lengths), copy(t.ids)};
}

void copy(const BatchTensors& from, const BatchTensors& to) {
  to.inputs.copy_(from.inputs);
  to.targets.copy_(from.targets);
  if (to.lengths.defined()) to.lengths.copy_(from.lengths);
  to.ids.copy_(from.ids);
}

BatchTensors StaticBuffers::of(const PackedBatch& packed) {
  const auto found = buffers_.find({packed.inputs, packed.targets});
  if (found != buffers_.end()) return found->second;
  BatchTensors made = make_tensors(packed, image_size_, device_);
  if (buffers_.size() < most_) buffers_.emplace(Shape{packed.inputs, packed.targets}, made);
  return made;
}

}  // namespace dtrain::data

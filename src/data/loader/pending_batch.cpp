#include "data/loader/pending_batch.h"

namespace dtrain::data {

void PendingBatch::place_in_block(at::Tensor block) {
  host = std::move(block);
  auto* begin = static_cast<std::byte*>(host.data_ptr());
  targets = begin;
  inputs = begin + packed.inputs_at();
  if (packed.rows()) {
    lengths = reinterpret_cast<int64_t*>(begin + packed.lengths_at());
  } else {
    augments = begin + packed.augments_at();
  }
}

void PendingBatch::place_in_tensors(int64_t image_size, at::Device device) {
  const auto options = at::TensorOptions().device(device);
  const int64_t samples = packed.samples();
  batch.targets = at::empty(packed.targets, options.dtype(scalar_type(packed.target_element)));
  if (packed.rows()) {
    batch.inputs = at::empty(packed.inputs, options.dtype(at::kFloat));
    batch.lengths = at::empty({samples}, options.dtype(at::kLong));
  } else {
    batch.inputs = at::empty({samples, 3, image_size, image_size},
                             options.dtype(at::kFloat).memory_format(at::MemoryFormat::ChannelsLast));
  }
  if (samples == 0) return;  // the tensors may be on a device; nothing is written
  targets = static_cast<std::byte*>(batch.targets.data_ptr());
  if (!packed.rows()) return;
  inputs = static_cast<std::byte*>(batch.inputs.data_ptr());
  lengths = batch.lengths.data_ptr<int64_t>();
}

void PendingBatch::leave_out(int64_t item, const std::string& message) {
  const std::scoped_lock lock(bad_mutex_);
  bad.push_back({item, message});
}

}  // namespace dtrain::data

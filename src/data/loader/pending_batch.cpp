#include "data/loader/pending_batch.h"

#include <algorithm>

namespace dtrain::data {

void PendingBatch::place_in_block(at::Tensor block) {
  host = std::move(block);
  auto* begin = static_cast<std::byte*>(host.data_ptr());
  targets = begin;
  std::ranges::copy(batch.ids, reinterpret_cast<int64_t*>(begin + packed.ids_at()));
  inputs = begin + packed.inputs_at();
  if (packed.rows()) {
    lengths = reinterpret_cast<int64_t*>(begin + packed.lengths_at());
  } else {
    augments = begin + packed.augments_at();
  }
}

void PendingBatch::place_in_tensors(int64_t image_size, at::Device device) {
  put(make_tensors(packed, image_size, device), batch);
  if (packed.samples() == 0) return;  // the tensors may be on a device; nothing is written
  std::ranges::copy(batch.ids, batch.sample_ids.mutable_data_ptr<int64_t>());
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

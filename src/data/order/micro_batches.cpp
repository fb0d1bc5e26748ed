#include "data/order/micro_batches.h"

#include <algorithm>
#include <utility>

namespace dtrain::data {

MicroBatches::MicroBatches(std::vector<int64_t> ids, OrderOptions options, Shard shard,
                           std::function<int64_t(int64_t)> length_of)
    : ids_(std::move(ids)),
      options_(options),
      shard_(shard),
      length_of_(std::move(length_of)),
      order_(count(),
             {options.shuffle, options.seed, options.global_batch,
              length_of_ ? options.length_window : 0},
             [this](int64_t index) { return length_of_(ids_[static_cast<size_t>(index)]); }) {}

int64_t MicroBatches::samples() { return positions().size(); }

MicroBatch MicroBatches::next() {
  const Range range = positions();
  MicroBatch batch{.ids = {},
                   .epoch = global_.epoch,
                   .at = next_,
                   .micro_steps = plan_.micro_steps,
                   .global_samples = global_.positions.size()};
  batch.ids.reserve(static_cast<size_t>(range.size()));
  for (int64_t position = range.begin; position < range.end; ++position) {
    batch.ids.push_back(ids_[static_cast<size_t>(order_(batch.epoch, position))]);
    if (length_of_) batch.rows += length_of_(batch.ids.back());
  }
  next_.advance(plan_.micro_steps);
  return batch;
}

int64_t MicroBatches::steps_per_epoch() const {
  return data::steps_per_epoch(count(), options_.global_batch);
}

int64_t MicroBatches::largest() const {
  if (options_.avoid_single) {
    return largest_micro_batch(count(), options_.batch_size, options_.global_batch, shard_.size);
  }
  const int64_t share = part(std::min(options_.global_batch, count()), shard_.size, 0).size();
  return std::max<int64_t>(1, std::min(options_.batch_size, share));
}

std::vector<PaddedLength> MicroBatches::padded_lengths(int64_t most) {
  std::vector<PaddedLength> lengths;
  for (int64_t step = 0, seen = 0; step < steps_per_epoch() && seen < most; ++step) {
    const GlobalBatch global = data::global_batch(step, count(), options_.global_batch);
    seen += global.positions.size();
    for (int rank = 0; rank < shard_.size; ++rank) {
      for (const Range& range : plan_of(global, rank).micro) {
        PaddedLength& padded =
            lengths.emplace_back(PaddedLength{.length = 0, .samples = range.size()});
        for (int64_t position = range.begin; position < range.end; ++position) {
          const int64_t id = ids_[static_cast<size_t>(order_(global.epoch, position))];
          padded.length = std::max(padded.length, length_of_(id));
        }
      }
    }
  }
  return lengths;
}

MicroPlan MicroBatches::plan_of(const GlobalBatch& global, int rank) const {
  const Shard shard = {rank, shard_.size};
  if (!options_.avoid_single) return micro_plan(global, options_.batch_size, shard);
  return training_plan(
      global, division_size(options_.batch_size, options_.global_batch, shard_.size), shard);
}

Range MicroBatches::positions() {
  if (planned_step_ != next_.step) {
    global_ = global_batch(next_.step, count(), options_.global_batch);
    plan_ = plan_of(global_, shard_.rank);
    planned_step_ = next_.step;
  }
  return plan_.micro[static_cast<size_t>(next_.micro)];
}

}  // namespace dtrain::data

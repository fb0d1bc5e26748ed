#include "data/micro_batches.h"

#include <algorithm>
#include <utility>

#include "data/packed_batch.h"

namespace dtrain::data {

MicroBatches::MicroBatches(const Store& store, std::vector<int64_t> ids, const SampleSpec& spec,
                           const LoaderOptions& options, Shard shard)
    : store_(store),
      options_(options),
      ids_(std::move(ids)),
      rows_(spec.kind == SampleSpec::Kind::kRows),
      shard_(shard),
      order_(count(), {options.shuffle, options.seed, options.global_batch, rows_ ? spec.length_window : 0},
             [this](int64_t index) { return length_of(store_, ids_[static_cast<size_t>(index)]); }) {}

int64_t MicroBatches::samples() { return positions().size(); }

Batch MicroBatches::next() {
  const Range range = positions();
  Batch batch;
  batch.epoch = global_.epoch;
  batch.step = next_.step;
  batch.micro = next_.micro;
  batch.micro_steps = plan_.micro_steps;
  batch.global_samples = global_.positions.size();
  batch.ids.reserve(static_cast<size_t>(range.size()));
  for (int64_t position = range.begin; position < range.end; ++position) {
    batch.ids.push_back(ids_[static_cast<size_t>(order_(batch.epoch, position))]);
    if (rows_) batch.rows += length_of(store_, batch.ids.back());
  }
  next_.advance(plan_.micro_steps);
  return batch;
}

int64_t MicroBatches::steps_per_epoch() const { return data::steps_per_epoch(count(), options_.global_batch); }

int64_t MicroBatches::largest() const {
  const int64_t share = part(std::min(options_.global_batch, count()), shard_.size, 0).size();
  return std::max<int64_t>(1, std::min(options_.batch_size, share));
}

Range MicroBatches::positions() {
  if (planned_step_ != next_.step) {
    global_ = global_batch(next_.step, count(), options_.global_batch);
    plan_ = micro_plan(global_, options_.batch_size, shard_);
    planned_step_ = next_.step;
  }
  return plan_.micro[static_cast<size_t>(next_.micro)];
}

}  // namespace dtrain::data

#include "train/shared_statistics.h"

#include <vector>

namespace dtrain::train {
namespace {

// The sizes of a batch of one sample; of one element where the size varies.
std::vector<int64_t> sizes_of_one(const data::Field& field) {
  std::vector<int64_t> sizes = {1};
  for (const int64_t size : field.shape) sizes.push_back(size == data::kVariable ? 1 : size);
  return sizes;
}

}  // namespace

SharedStatistics::SharedStatistics(dist::Communicator* communicator, const data::Schema& schema,
                                   const data::SampleSpec& spec, at::Device device,
                                   PhaseTracker& tracker)
    : communicator_(communicator),
      schema_(schema),
      spec_(spec),
      device_(device),
      tracker_(tracker) {}

data::Batch SharedStatistics::zero_sample() const {
  const auto floats = at::TensorOptions(device_).dtype(at::kFloat);
  const auto longs = at::TensorOptions(device_).dtype(at::kLong);
  data::Batch batch;
  if (spec_.kind == data::SampleSpec::Kind::kImage) {
    // at::zeros() ignores the memory format.
    batch.inputs = at::empty({1, 3, spec_.image_size, spec_.image_size}, floats,
                             at::MemoryFormat::ChannelsLast)
                       .zero_();
  } else {
    batch.inputs = at::zeros(sizes_of_one(schema_.input), floats);
    batch.lengths = at::ones({1}, longs);
  }
  const bool whole_numbers = schema_.target.element == data::Element::kInt64;
  batch.targets = at::zeros(sizes_of_one(schema_.target), whole_numbers ? longs : floats);
  batch.rows = 1;
  batch.ids = {0};
  batch.sample_ids = at::zeros({1}, longs);
  return batch;
}

SharedStatistics::Scope::Scope(SharedStatistics& shared, bool has_samples) {
  if (shared.communicator_ == nullptr) return;
  scope_.emplace([&shared](at::Tensor& sums) { shared.sum_over_ranks(sums); }, has_samples);
}

void SharedStatistics::sum_over_ranks(at::Tensor& sums) {
  if (alone_) return;
  // A slow rank is recognized by its own time in forward and backward, so waiting for others is no
  // part of it. On a GPU the host does not wait, and backward runs on another thread than the
  // clock's: there only the watchdog learns of it.
  const measure::Phase phase = tracker_.current();
  const bool host_waits = device_.is_cpu();
  if (host_waits) {
    tracker_.enter(measure::Phase::kAllReduceWait);
  } else {
    tracker_.wait_for_others();
  }
  communicator_->all_reduce(sums, dist::ReduceOp::kSum).wait();
  if (host_waits) {
    tracker_.enter(phase);
  } else {
    tracker_.proceed();
  }
}

}  // namespace dtrain::train

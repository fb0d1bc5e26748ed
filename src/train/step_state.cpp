#include "train/step_state.h"

#include <bit>

namespace dtrain::train {
namespace {

constexpr int64_t kSeed = 0, kStep = 1, kEpoch = 2, kRate = 3, kNumbers = 4;

}  // namespace

StepState::StepState(at::Device device)
    : block_(at::zeros({kNumbers}, at::TensorOptions(device).dtype(at::kLong))),
      seed_(block_.select(0, kSeed)),
      step_(block_.select(0, kStep)),
      epoch_(block_.select(0, kEpoch)),
      learning_rate_(block_.narrow(0, kRate, 1)
                         .view(device.is_cpu() ? at::kDouble : at::kFloat)
                         .select(0, 0)) {}

void StepState::write(const Numbers& numbers) {
  static_assert(std::endian::native == std::endian::little,
                "a float32 rate is the first half of its number");
  const bool on_cpu = block_.is_cpu();
  // Pinned memory of its own for each copy: the allocator keeps it until the copy has finished.
  const at::Tensor host =
      on_cpu ? block_
             : at::empty({kNumbers}, at::TensorOptions().dtype(at::kLong).pinned_memory(true));
  auto* values = host.mutable_data_ptr<int64_t>();
  values[kSeed] = static_cast<int64_t>(numbers.seed);
  values[kStep] = numbers.step;
  values[kEpoch] = numbers.epoch;
  values[kRate] = on_cpu ? std::bit_cast<int64_t>(numbers.learning_rate)
                         : std::bit_cast<int32_t>(static_cast<float>(numbers.learning_rate));
  if (!on_cpu) block_.copy_(host, /*non_blocking=*/true);
}

layers::RandomContext StepState::randomness(const at::Tensor& sample_ids) const {
  return {.seed = seed_, .step = step_, .sample_ids = sample_ids, .epoch = epoch_};
}

}  // namespace dtrain::train

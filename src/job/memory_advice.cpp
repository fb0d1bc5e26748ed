#include "job/memory_advice.h"

#include <c10/util/Exception.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>

#include "core/clock.h"
#include "core/log.h"
#include "data/loader/loader.h"
#include "device/tensor_memory.h"
#include "layers/linear_bottleneck.h"
#include "layers/random_context.h"
#include "os/vector_set.h"
#include "tasks/task.h"
#include "train/phases.h"

namespace dtrain::job {
namespace {

using train::MemoryNeed;
using train::Precision;

// Two sizes, because a part of the memory does not depend on the batch. Where a batch norm has one
// value of each channel in a sample, one sample is too few.
constexpr int64_t kFewSamples[] = {1, 2};
constexpr double kPatience = 10;  // seconds: a network that is slower is tried without changes only
// How many times as long a CPU without instructions for bfloat16 multiplies in it: 60 s for a
// picture of 1024 pixels.
constexpr double kSlowerInBf16 = 50;

// One network as the configuration makes it, on the CPU; for another device its layers keep what
// they keep there.
class Trial {
 public:
  Trial(const config::Config& config, const DataSet& data, at::Device device)
      : data_(data),
        device_(device),
        seed_(config.train.seed),
        task_(tasks::make_task(config, tasks::facts_of(*data.store, data.splits.train))),
        phases_(train::phases_of(*task_, config.train.epochs)) {
    task_->check(*data.store);
    task_->model().train();
  }

  tasks::Task& task() { return *task_; }

  // What is trained in each phase of the task.
  std::vector<int64_t> trained_bytes() {
    std::vector<int64_t> bytes;
    for (const train::RunPhase& one : phases_) {
      task_->enter(one.phase);
      std::vector<at::Tensor> trained;
      for (const at::Tensor& parameter : task_->model().parameters()) {
        if (parameter.requires_grad()) trained.push_back(parameter);
      }
      bytes.push_back(device::bytes_of(trained));
    }
    return bytes;
  }

  // Of one sample, by forward and backward of a few, in the phase that needs most.
  double activations_per_sample(bool autocast) {
    double most = 0;
    for (const train::RunPhase& one : phases_) {
      task_->enter(one.phase);
      try {
        most = std::max(most, difference_at(kFewSamples[0], autocast));
      } catch (const c10::Error&) {
        most = std::max(most, difference_at(kFewSamples[1], autocast));
      }
    }
    return most;
  }

  int64_t batch_bytes_per_sample() {
    const data::Batch batch = load(largest(1));
    return device::bytes_of(std::vector{batch.inputs, batch.targets});
  }

 private:
  // Those that a full memory is full of.
  std::vector<int64_t> largest(int64_t count) const {
    return data::largest_samples(*data_.store, data_.splits.train, count);
  }

  // What one sample more than `few` needs more.
  double difference_at(int64_t few, bool autocast) {
    const std::vector<int64_t> ids = largest(few + 1);
    const int64_t larger = peak_of(ids, autocast);
    if (static_cast<int64_t>(ids.size()) <= few)
      return static_cast<double>(larger) / static_cast<double>(ids.size());
    return static_cast<double>(larger - peak_of({ids.begin(), ids.end() - 1}, autocast));
  }

  data::Batch load(const std::vector<int64_t>& ids) {
    const auto count = static_cast<int64_t>(ids.size());
    data::Loader loader(*data_.store, ids, task_->samples(), data::one_pass(count, count), {0, 1});
    return loader.next();
  }

  int64_t peak_of(const std::vector<int64_t>& ids, bool autocast) {
    const data::Batch batch = load(ids);
    for (const at::Tensor& parameter : task_->model().parameters())
      parameter.mutable_grad() = at::Tensor();
    const layers::RandomScope randomness(
        layers::random_context(seed_, /*step=*/0, batch.sample_ids));
    std::optional<layers::LayersOneByOne> as_on_a_gpu;
    if (!device_.is_cpu()) as_on_a_gpu.emplace();
    const device::TensorMemory tensors;
    const tasks::Loss loss = [&] {
      const layers::AutocastGuard guard =
          train::autocast_for(autocast ? Precision::kBf16 : Precision::kFp32, at::kCPU);
      return task_->loss(batch);
    }();
    loss.sum().backward();
    return tensors.peak();
  }

  const DataSet& data_;
  const at::Device device_;
  const uint64_t seed_;
  std::unique_ptr<tasks::Task> task_;
  std::vector<train::RunPhase> phases_;
};

double activations_with(const config::Config& config, const DataSet& data, at::Device device,
                        bool autocast) {
  try {
    return Trial(config, data, device).activations_per_sample(autocast);
  } catch (...) {  // a task without this change, or no memory: nothing is predicted
    return MemoryNeed::kUnknown;
  }
}

bool is_low(Precision precision) {
  return precision == Precision::kBf16 || precision == Precision::kFp16;
}

}  // namespace

MemoryNeed memory_need(const config::Config& config, const DataSet& data,
                       const train::BatchArithmetic& batches, Precision precision,
                       const FullMemory& full) {
  const log::Quiet quiet;
  MemoryNeed need{.step = {}, .batches = batches, .missing = full.requested};
  const auto samples = static_cast<double>(train::largest_micro_batch(batches));
  const auto of_micro_batch = [&](double bytes) {
    return static_cast<int64_t>(std::max(0.0, bytes) * samples);
  };
  double seconds = 0;
  {
    Trial now(config, data, full.device);
    torch::nn::Module& model = now.task().model();
    const std::vector<int64_t> trained = now.trained_bytes();
    const bool sgd = config.optimizer.name == config::OptimizerName::kSgd;
    const int64_t moments = !sgd ? 2 : config.optimizer.momentum > 0 ? 1 : 0;
    need.step.weights = device::bytes_of(model.parameters()) + device::bytes_of(model.buffers());
    need.step.gradients = *std::ranges::max_element(trained);
    need.step.moments = moments * std::accumulate(trained.begin(), trained.end(), int64_t{0});
    need.step.average = config.train.ema > 0 ? device::bytes_of(model.parameters()) : 0;
    need.step.batch = of_micro_batch(static_cast<double>(now.batch_bytes_per_sample()));
    const auto began = std::chrono::steady_clock::now();
    need.step.activations = of_micro_batch(now.activations_per_sample(is_low(precision)));
    seconds = seconds_since(began);
    need.keeps_moments = moments > 0;
    need.keeps_average = config.train.ema > 0;
  }
  need.read_ahead = full.device.is_cpu() ? config.data.prefetch : 0;
  need.missing = std::max(need.missing, need.total() - full.capacity);
  if (seconds > kPatience) return need;
  if (!config.model.checkpointing) {
    config::Config changed = config;
    changed.model.checkpointing = true;
    need.activations_checkpointed =
        samples * activations_with(changed, data, full.device, is_low(precision));
  }
  // Such a CPU would not train faster for it, and is not asked for long what a GPU would save.
  const bool quick =
      has_bfloat16_products() || (!full.device.is_cpu() && kSlowerInBf16 * seconds <= kPatience);
  if (quick && !is_low(precision) && precision != Precision::kFp64) {
    need.amp = train::has_bf16(full.device.type(), full.capability) ? "bf16" : "fp16";
    need.activations_amp = samples * activations_with(config, data, full.device, /*autocast=*/true);
  }
  return need;
}

std::string memory_advice(const config::Config& config, const DataSet& data,
                          const train::BatchArithmetic& batches, Precision precision,
                          const FullMemory& full) noexcept {
  try {
    return train::describe(memory_need(config, data, batches, precision, full));
  } catch (...) {
    return "";
  }
}

}  // namespace dtrain::job

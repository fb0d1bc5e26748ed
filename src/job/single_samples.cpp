#include "job/single_samples.h"

#include <torch/autograd.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <vector>

#include "checkpoint/finite_values.h"
#include "core/error.h"
#include "core/log.h"
#include "data/loader/loader.h"
#include "device/device.h"
#include "dist/failure.h"
#include "job/placement.h"
#include "layers/random_context.h"
#include "models/freeze.h"
#include "models/load_weights.h"
#include "models/network.h"
#include "text/library_text.h"
#include "text/strings.h"
#include "train/evaluate.h"
#include "train/random_generators.h"

namespace dtrain::job {
namespace {

// Puts back what forward in training mode changes.
class Unchanged {
 public:
  Unchanged(torch::nn::Module& network, at::Device device)
      : device_(device), random_(train::random_generators(device)) {
    for (const auto& buffer : network.named_buffers()) {
      buffers_.push_back({buffer.key(), buffer.value(), buffer.value().clone()});
    }
  }
  ~Unchanged() {
    try {
      const at::NoGradGuard no_grad;
      for (Buffer& buffer : buffers_) buffer.now.copy_(buffer.before);
      train::set_random_generators(random_, device_);
    } catch (const c10::Error&) {
      // The device has failed, and the next operation on it says so: a destructor cannot.
    }
  }
  Unchanged(const Unchanged&) = delete;
  Unchanged& operator=(const Unchanged&) = delete;

  // The name of a buffer that is no longer finite, or "". The mask of an attention has -inf from
  // the start.
  std::string spoiled_buffer() const {
    for (const Buffer& buffer : buffers_) {
      const bool was_finite = checkpoint::not_finite(buffer.before).empty();
      if (was_finite && !checkpoint::not_finite(buffer.now).empty()) return buffer.name;
    }
    return "";
  }

 private:
  struct Buffer {
    std::string name;
    at::Tensor now, before;
  };
  at::Device device_;
  checkpoint::NamedTensors random_;
  std::vector<Buffer> buffers_;
};

// The shortest samples: what they have of a variable length may be a single value per channel too.
std::vector<int64_t> samples_to_try(const DataSet& data, int64_t count) {
  std::vector<int64_t> ids = data.splits.train;
  if (!data.store->schema().input.variable()) return ids;
  const auto end = ids.begin() + std::min(count, static_cast<int64_t>(ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int64_t a, int64_t b) {
    return data::length_of(*data.store, a) < data::length_of(*data.store, b);
  });
  return ids;
}

// `count` samples as one batch; an empty one if too many samples are bad.
data::Batch load(const tasks::Task& task, const SingleSampleTraining& run, int64_t count) {
  constexpr int64_t kTries = 8;
  const log::Quiet quiet;
  const std::vector<int64_t> ids = samples_to_try(run.data, count * kTries);
  for (int64_t from = 0; from + count <= static_cast<int64_t>(ids.size()) && from < count * kTries;
       from += count) {
    data::LoaderOptions options = data::one_pass(count, count);
    options.skip_bad = run.config.data.skips_bad_samples();
    options.device = run.device;
    data::Loader loader(*run.data.store, {ids.begin() + from, ids.begin() + from + count},
                        task.samples(), options, {});
    data::Batch batch = loader.next();
    if (batch.samples() == count) return batch;
  }
  return {};
}

std::string defect_of(tasks::Task& task, const SingleSampleTraining& run,
                      const data::Batch& batch) {
  torch::nn::Module& network = task.model();
  const Unchanged unchanged(network, run.device);
  const layers::RandomScope randomness(
      layers::random_context(run.config.train.seed, /*step=*/0, batch.sample_ids));
  const at::Tensor loss = [&] {
    const layers::AutocastGuard autocast = train::autocast_for(run.precision, run.device);
    return task.loss(batch).sum();
  }();
  if (!checkpoint::not_finite(loss).empty()) return "its loss is not finite";
  torch::autograd::variable_list trained;
  for (const at::Tensor& parameter : network.parameters()) {
    if (parameter.requires_grad()) trained.push_back(parameter);
  }
  if (loss.requires_grad()) {
    for (const at::Tensor& gradient :
         torch::autograd::grad({loss}, trained, {}, std::nullopt,
                               /*create_graph=*/false, /*allow_unused=*/true)) {
      if (gradient.defined() && !checkpoint::not_finite(gradient).empty())
        return "its gradient is not finite";
    }
  }
  const std::string spoiled = unchanged.spoiled_buffer();
  return spoiled.empty() ? "" : str("its buffer '", spoiled, "' is not finite afterwards");
}

// Forward of a TorchScript file may change all of it, its attributes too: another one like it
// is tried.
std::unique_ptr<tasks::Task> loaded_again(tasks::Task& task, const SingleSampleTraining& run) {
  std::unique_ptr<tasks::Task> again =
      tasks::make_task(run.config, tasks::facts_of(task.metadata()));
  checkpoint::NamedTensors tensors;
  for (const auto& item : task.model().named_parameters())
    tensors.emplace_back(item.key(), item.value().detach());
  for (const auto& item : task.model().named_buffers())
    tensors.emplace_back(item.key(), item.value());
  models::load_all(again->model(), tensors);
  place_on_device(*again, run.precision, run.device, run.config.model.channels_last);
  return again;
}

bool is_of_ours(tasks::Task& task) {
  return dynamic_cast<models::Network*>(&task.model()) != nullptr;
}

std::string defect_of_samples(tasks::Task& task, const SingleSampleTraining& run, int64_t count) {
  data::Batch batch = load(task, run, count);
  if (batch.samples() < count) return "";
  train::to_precision(batch, run.precision);
  const std::unique_ptr<tasks::Task> again = is_of_ours(task) ? nullptr : loaded_again(task, run);
  tasks::Task& tried = again ? *again : task;
  tried.model().train();
  if (run.config.train.freeze_batch_norm) models::freeze_batch_norm(tried.model());
  try {
    return defect_of(tried, run, batch);
  } catch (const c10::Error& error) {
    // No defect of the network. What passed through TorchScript has lost its type, so the device is
    // asked too.
    if (dist::says_failed(error) || !device::works(run.device)) throw;
    return torch_message(error.what_without_backtrace());
  } catch (const Error& error) {
    return error.what();
  }
}

// Our batch norm accepts one value per channel, unless it is the first that it gets, or the sums
// are those of all ranks.
bool fails_late_or_never(const SingleSampleTraining& run) {
  const bool shared = run.config.train.sync_batch_norm && run.batches.ranks > 1;
  return shared || run.resumed || !train::single_samples(run.batches).first;
}

}  // namespace

std::string single_sample_defect(tasks::Task& task, const SingleSampleTraining& run) {
  const std::string defect = defect_of_samples(task, run, 1);
  return defect.empty() || !defect_of_samples(task, run, 2).empty() ? "" : defect;
}

std::string check_single_samples(tasks::Task& task, const SingleSampleTraining& run) {
  const train::BatchArithmetic& b = run.batches;
  const train::SingleSamples single = train::single_samples(b);
  const bool may_leave_one =
      run.config.data.skips_bad_samples() && !is_of_ours(task) && train::has_pairs(b);
  if ((!single.any() && !may_leave_one) || (is_of_ours(task) && fails_late_or_never(run)))
    return "";
  const std::string defect = single_sample_defect(task, run);
  if (defect.empty()) return "";
  const std::string network = run.config.model.file.empty() ? "the network" : run.config.model.file;
  if (!single.any()) {
    return str(network, " cannot train on one sample: ", defect, ". Some micro-batches have two (",
               train::describe(b),
               "): if data.on_bad_sample skip leaves one of them out, the run ends");
  }
  const std::string flags =
      train::flags_without_single_samples(b, run.keeps_global_batch || run.resumed);
  throw ConfigError(
      str(network, " cannot train on a micro-batch of one sample: ", defect, ". ",
          single.full ? "Each step" : "The last step of each epoch", " has one (",
          train::describe(b), "): ",
          flags.empty()
              ? "train on more samples"
              : str(run.resumed && flags.starts_with("--train.") ? "start a new run with " : "use ",
                    flags)));
}

}  // namespace dtrain::job

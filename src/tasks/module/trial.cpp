#include "tasks/module/trial.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "data/loader/loader.h"
#include "tasks/module/script_network.h"

namespace dtrain::tasks {
namespace {

std::vector<int64_t> with_batch(int64_t samples, std::vector<int64_t> shape) {
  shape.insert(shape.begin(), samples);
  return shape;
}

TrialBatch made_up_batch(const MadeUp& kind, int64_t samples) {
  TrialBatch batch;
  const std::vector<int64_t> shape = with_batch(samples, kind.input);
  batch.inputs = {kind.ones ? at::ones(shape) : at::randn(shape)};
  if (kind.lengths) {  // lengths count down from the full one, and stay above half of it
    const int64_t longest = kind.input.front();
    batch.inputs.push_back(longest -
                           at::arange(samples, at::kLong) % std::max<int64_t>(1, longest / 2));
  }
  return batch;
}

TrialBatch load(const data::Store& store, const data::SampleSpec& spec,
                const std::vector<int64_t>& ids, bool lengths) {
  const auto count = static_cast<int64_t>(ids.size());
  data::Loader loader(store, ids, spec, data::one_pass(count, count), data::Shard{});
  const data::Batch batch = loader.next();
  TrialBatch trial{.inputs = {batch.inputs}, .targets = batch.targets};
  if (lengths) trial.inputs.push_back(batch.lengths);
  return trial;
}

// The samples to try, the preferred ones first: those of the quarter, the half and three quarters
// of all sizes, so that lengths differ and none is extreme.
std::vector<int64_t> candidates(const data::Store& store) {
  constexpr size_t kLookedAt = 64;
  std::vector<int64_t> ids = store.origin().split("train");
  std::erase_if(ids, [&](int64_t id) {
    return id < 0 || id >= store.schema().samples;
  });  // reported elsewhere
  if (ids.empty()) {
    ids.resize(static_cast<size_t>(store.schema().samples));
    std::iota(ids.begin(), ids.end(), 0);
  }
  const size_t count = std::min(kLookedAt, ids.size());
  for (size_t i = 0; i < count; ++i) ids[i] = ids[i * ids.size() / count];
  ids.resize(count);
  std::ranges::stable_sort(ids, {}, [&](int64_t id) { return store.input_rows(id); });
  std::vector<int64_t> ordered;
  if (count > 0) ordered = {ids[count / 4], ids[count / 2], ids[count * 3 / 4]};
  for (const int64_t id : ids) {
    if (std::ranges::find(ordered, id) == ordered.end()) ordered.push_back(id);
  }
  return ordered;
}

}  // namespace

ContractTrial trial_of(const data::Store& store, const data::SampleSpec& spec, bool lengths,
                       at::Device device) {
  constexpr auto kWanted = static_cast<size_t>(kTrialSamples);
  std::vector<int64_t> usable;
  std::string reason = store.origin().path().string() + " has no samples";
  for (const int64_t id : candidates(store)) {
    if (usable.size() == kWanted) break;
    try {
      load(store, spec, {id}, lengths);
      usable.push_back(id);
    } catch (const DataError& error) {
      reason = error.what();
    }
  }
  if (usable.empty()) throw DataError(reason);
  const int64_t one = usable.front();
  usable.resize(kWanted, one);  // a small file
  return {.several = load(store, spec, usable, lengths),
          .one = load(store, spec, {one}, lengths),
          .origin = "",
          .device = device};
}

ContractTrial made_up(const MadeUp& kind) {
  return {.several = made_up_batch(kind, kTrialSamples),
          .one = made_up_batch(kind, 1),
          .origin = kind.ones ? "made-up all-ones " : "made-up ",
          .device = kind.device};
}

std::vector<ContractTrial> likely_trials(const std::filesystem::path& file,
                                         const std::string& inputs, int64_t image_size,
                                         int64_t features) {
  constexpr int64_t kRows = 12, kManyRows = 128;
  const ScriptNetwork network(file);
  const std::vector<at::Tensor> parameters = network.parameters();
  const auto weight = std::ranges::find_if(parameters, [](const auto& p) { return p.dim() >= 2; });
  const int64_t wide = weight == parameters.end() ? 0 : weight->size(1);
  const bool image =
      inputs == "image" || (inputs.empty() && weight != parameters.end() && weight->dim() == 4);
  const bool lengths =
      !image && (inputs == "rows+lengths" || (inputs.empty() && network.arguments().required == 2));
  const int64_t row = features > 0 ? features : std::max<int64_t>(1, wide);
  std::vector<std::vector<int64_t>> shapes = {{kRows, row}, {row}, {kManyRows, row}};
  if (image) shapes = {{3, image_size, image_size}};
  if (lengths) shapes = {{kRows, row}, {kManyRows, row}};
  std::vector<ContractTrial> trials;
  for (const bool ones : {false, true}) {
    for (const std::vector<int64_t>& shape : shapes) {
      trials.push_back(made_up({.input = shape, .lengths = lengths, .ones = ones}));
    }
  }
  return trials;
}

}  // namespace dtrain::tasks

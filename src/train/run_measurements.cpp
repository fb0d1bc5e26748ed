#include "train/run_measurements.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "core/check.h"
#include "dist/object_collectives.h"

namespace dtrain::train {
namespace {

using monitoring::StepTimes;

// What a verdict looks at, so that it takes milliseconds at any number of ranks.
constexpr size_t kMostValues = 50000, kMostSteps = 500, kFewestSteps = 40;

StepTimes mean_of(const StepTimes* begin, size_t count) {
  StepTimes mean;
  for (size_t i = 0; i < count; ++i) {
    for (size_t phase = 0; phase < mean.phases.size(); ++phase) mean.phases[phase] += begin[i].phases[phase];
    mean.wall += begin[i].wall;
  }
  for (double& seconds : mean.phases) seconds /= static_cast<double>(count);
  mean.wall /= static_cast<double>(count);
  return mean;
}

// Of the steps that were measured, the share that the phase follows: checkpoints or evaluations per step.
double share_with(const diagnose::Steps& steps, monitoring::Phase phase) {
  if (steps.empty()) return 0;
  const auto with = std::count_if(steps.begin(), steps.end(), [phase](const StepTimes& s) { return s.of(phase) > 0; });
  return static_cast<double>(with) / static_cast<double>(steps.size());
}

}  // namespace

RunMeasurements::RunMeasurements(dist::Communicator& host)
    : host_(host),
      most_(std::clamp(kMostValues / static_cast<size_t>(host.size()), kFewestSteps, kMostSteps)),
      left_out_(kWarmUpSteps) {
  if (host.rank() == 0) steps_.resize(static_cast<size_t>(host.size()));
}

void RunMeasurements::gather(const std::vector<StepTimes>& own) {
  const size_t warm_up = std::min(left_out_, own.size());
  left_out_ -= warm_up;
  const size_t begin = std::max(warm_up, own.size() - std::min(own.size(), most_));
  const std::vector<StepTimes> all = dist::all_gather_values(
      host_, std::vector<StepTimes>(own.begin() + static_cast<std::ptrdiff_t>(begin), own.end()));
  const auto ranks = static_cast<size_t>(host_.size());
  DTRAIN_CHECK(all.size() % ranks == 0, all.size(), " steps of ", ranks, " ranks");
  window_.clear();
  const size_t count = all.size() / ranks;
  if (host_.rank() != 0 || count == 0) return;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const StepTimes* first = all.data() + rank * count;
    window_.push_back(mean_of(first, count));
    diagnose::Steps& steps = steps_[rank];
    steps.insert(steps.end(), first, first + count);
    if (steps.size() > most_) steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(most_));
  }
}

diagnose::RunEvidence evidence_of(const TrainContext& context, const RunMeasurements& measured, double padding_waste) {
  diagnose::RunEvidence run;
  for (const diagnose::Steps& steps : measured.steps()) {
    diagnose::RankEvidence rank;
    rank.steps = steps;
    rank.loader.threads = context.loader_threads;
    run.ranks.push_back(std::move(rank));
  }
  if (run.ranks.empty()) return run;
  const diagnose::Steps& steps = run.ranks[0].steps;
  run.settings = {.batch_size = context.batches.batch_size,
                  .accumulate = context.batches.accumulate,
                  .workers = context.loader_threads,
                  .threads = at::get_num_threads(),
                  .gpu = context.device.is_cuda(),
                  .images = context.task.samples().kind == data::SampleSpec::Kind::kImage,
                  .augments_hue = context.config.augment.hue > 0,
                  .steps_per_epoch = static_cast<double>(context.batches.steps_per_epoch),
                  .saves = share_with(steps, monitoring::Phase::kCheckpoint),
                  .evaluations = share_with(steps, monitoring::Phase::kEval),
                  .padding_waste = padding_waste};
  return run;
}

}  // namespace dtrain::train

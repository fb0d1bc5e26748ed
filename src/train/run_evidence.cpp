#include "train/run_evidence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "config/scope.h"
#include "train/precision.h"

namespace dtrain::train {
namespace {

using measure::CoreMask;
using measure::Quantity;
using measure::StepTimes;
using measure::Values;
using measure::Windows;

// Of the steps that were measured, the share that the phase follows: evaluations per step.
double share_with(const diagnose::Steps& steps, measure::Phase phase) {
  if (steps.empty()) return 0;
  const auto with = std::count_if(steps.begin(), steps.end(),
                                  [phase](const StepTimes& s) { return s.of(phase) > 0; });
  return static_cast<double>(with) / static_cast<double>(steps.size());
}

// As the interval plans them; where that is a time, as often as they happened.
double times_per_step(const config::Interval& every, int64_t steps_per_epoch,
                      const diagnose::Steps& steps, measure::Phase phase) {
  if (every.period() > 0) return share_with(steps, phase);
  const double by_steps = every.steps > 0 ? 1.0 / static_cast<double>(every.steps) : 0;
  const double by_epochs =
      every.epochs > 0 ? 1.0 / static_cast<double>(every.epochs * steps_per_epoch) : 0;
  return std::max(by_steps, by_epochs);
}

double count_of(const CoreMask& mask, double unknown) {
  int cores = 0;
  for (const uint64_t bits : mask) cores += std::popcount(bits);
  return cores > 0 ? cores : unknown;
}

// Half of the readers read little alone: what they need for a sample is known after enough samples
// of the whole run.
void set_sample_seconds(const Windows& windows, size_t rank, Values& values) {
  constexpr double kEnough = 8;  // samples: of fewer the mean says little
  const measure::Total run = measure::total_of_run(windows, rank);
  const bool enough =
      run.sum(Quantity::kFewSamples) >= kEnough && run.sum(Quantity::kManySamples) >= kEnough;
  const Values of_run = run.per_step();
  for (const Quantity of_sample : {Quantity::kFewSampleSeconds, Quantity::kManySampleSeconds})
    values[of_sample] = enough ? of_run[of_sample] : diagnose::kUnknown;
}

Values rank_values(const Windows& windows, size_t rank) {
  Values values = measure::per_step(windows, rank);
  if (windows.empty()) return values;
  set_sample_seconds(windows, rank, values);
  const CoreMask& allowed = windows.back().ranks[rank].allowed_cores;
  values[Quantity::kCores] = count_of(allowed, values[Quantity::kCores]);
  return values;
}

// What the ranks of a host measured of it, as the first of them saw it; what they did not use
// themselves, others did.
diagnose::HostEvidence host_evidence(const Windows& windows, const std::vector<size_t>& ranks,
                                     const diagnose::RunEvidence& run) {
  diagnose::HostEvidence host;
  if (windows.empty()) return host;
  host.values = run.ranks[ranks[0]].values;
  double others = host.values[Quantity::kHostBusy];
  CoreMask allowed{};
  for (const size_t rank : ranks) {
    others -= run.ranks[rank].values[Quantity::kCpu];
    const CoreMask& mask = windows.back().ranks[rank].allowed_cores;
    for (size_t i = 0; i < mask.size(); ++i) allowed[i] |= mask[i];
  }
  host.job_cores = count_of(allowed, diagnose::kUnknown);
  host.others_cpu = std::isnan(others) ? others : std::max(0.0, others);
  return host;
}

// The kernel adds up what it withheld from each core on which a thread of the group wanted to run,
// so no more cores than threads. Ranks of one group read the same sum.
void divide_throttled_time(const std::vector<size_t>& ranks, const diagnose::HostEvidence& host,
                           diagnose::RunEvidence& run) {
  const auto throttled = [&](size_t rank) -> double& {
    return run.ranks[rank].values[Quantity::kThrottled];
  };
  const auto [least, most] = std::minmax_element(
      ranks.begin(), ranks.end(), [&](size_t a, size_t b) { return throttled(a) < throttled(b); });
  const bool one_group = throttled(*least) > 0.8 * throttled(*most);
  const auto threads_of = [&](size_t rank) {
    return run.ranks[rank].compute_threads() + run.ranks[rank].readers();
  };
  int threads_of_all = 0;
  for (const size_t rank : ranks) threads_of_all += threads_of(rank);
  for (const size_t rank : ranks) {
    const double cores =
        one_group && host.job_cores > 0 ? host.job_cores : run.ranks[rank].values[Quantity::kCores];
    throttled(rank) /=
        std::max(1.0, std::min<double>(cores, one_group ? threads_of_all : threads_of(rank)));
  }
}

// Of the cores that several ranks may use, each has its part.
void divide_cores(const Windows& windows, const std::vector<size_t>& ranks,
                  diagnose::RunEvidence& run) {
  if (windows.empty()) return;
  const auto mask = [&](size_t rank) { return windows.back().ranks[rank].allowed_cores; };
  for (const size_t rank : ranks) {
    if (mask(rank) == CoreMask{}) continue;  // unknown
    const auto share =
        std::count_if(ranks.begin(), ranks.end(), [&](size_t r) { return mask(r) == mask(rank); });
    run.ranks[rank].values[Quantity::kCores] /= static_cast<double>(share);
  }
}

void add_hosts(const Windows& windows, const std::vector<std::string>& nodes,
               diagnose::RunEvidence& run) {
  std::map<std::string, std::vector<size_t>> ranks_of;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) ranks_of[nodes[rank]].push_back(rank);
  for (const auto& [name, ranks] : ranks_of) {
    diagnose::HostEvidence host = host_evidence(windows, ranks, run);
    host.name = name;
    for (const size_t rank : ranks) run.ranks[rank].host = static_cast<int>(run.hosts.size());
    divide_throttled_time(ranks, host, run);
    divide_cores(windows, ranks, run);
    run.hosts.push_back(std::move(host));
  }
}

}  // namespace

diagnose::NetworkUse network_use(const dist::GradientReducer& reducer,
                                 const std::optional<dist::CostFit>& cost, double first_mebibytes) {
  diagnose::NetworkUse use;
  if (cost) {
    use.latency = cost->latency;
    use.seconds_per_byte = cost->seconds_per_byte;
  }
  const auto plan = [](double mebibytes, const std::vector<int64_t>& bytes) {
    return diagnose::BucketPlan{mebibytes, std::vector<double>(bytes.begin(), bytes.end())};
  };
  use.plan = plan(0, reducer.bucket_bytes());
  // With the sums of loss and weight
  use.messages = static_cast<double>(use.plan.bytes.size() + 1);
  use.bytes = static_cast<double>(reducer.bytes_per_step());
  for (const int mebibytes : {1, 2, 4, 8, 16, 32, 64, 128, 1024}) {
    if (mebibytes < first_mebibytes) continue;
    use.others.push_back(plan(mebibytes, reducer.bucket_bytes_with(int64_t{mebibytes} << 20)));
  }
  return use;
}

double cached_step_for(const MeasuredSteps& headroom, const diagnose::Steps& steps,
                       const BatchArithmetic& batches) {
  if (headroom.steps == 0 || steps.empty()) return diagnose::kUnknown;
  const auto measured = static_cast<double>(headroom.steps);
  double cells = 0;
  for (const StepTimes& step : steps)
    cells += step.padded.cells / static_cast<double>(steps.size());
  double ratio = 0;
  if (cells > 0 && headroom.padded.cells > 0) {
    ratio = cells / (headroom.padded.cells / measured);
  } else {
    // Steps of whole epochs have the short one among them.
    const auto samples = static_cast<double>(batches.samples),
               per_epoch = static_cast<double>(batches.steps_per_epoch);
    const bool whole = static_cast<double>(steps.size()) >= per_epoch;
    const double each =
        whole ? samples / per_epoch : std::min(samples, static_cast<double>(batches.global_batch));
    ratio = each / (static_cast<double>(headroom.samples) / measured);
  }
  return ratio * headroom.seconds / measured;
}

diagnose::RunEvidence evidence_of(const std::vector<diagnose::Steps>& steps, const Windows& windows,
                                  const std::vector<std::string>& nodes) {
  diagnose::RunEvidence run;
  for (size_t rank = 0; rank < steps.size(); ++rank) {
    diagnose::RankEvidence evidence;
    evidence.steps = steps[rank];
    evidence.values = rank_values(windows, rank);
    evidence.memory = measure::memory_of(windows, rank);
    run.ranks.push_back(std::move(evidence));
  }
  if (run.ranks.empty()) return run;
  add_hosts(windows, nodes, run);
  return run;
}

diagnose::RunEvidence evidence_of(const TrainContext& context,
                                  const measure::RunMeasurements& measured,
                                  const std::vector<std::string>& nodes, int64_t done) {
  diagnose::RunEvidence run = evidence_of(measured.steps(), measured.windows(), nodes);
  if (run.ranks.empty()) return run;
  const diagnose::Steps& steps = run.ranks[0].steps;
  const config::Config& config = context.config;
  const int64_t per_epoch = context.batches.steps_per_epoch;
  run.settings = {
      .batch_size = context.batches.batch_size,
      .accumulate = context.batches.accumulate,
      .global_batch = context.global_batch_given ? config.train.global_batch : 0,
      .gpu = context.device.is_cuda(),
      .precision = to_string(context.precision),
      .narrow_wire = config.dist.wire != config::Wire::kFp32,
      .images = context.task.samples().kind == data::SampleSpec::Kind::kImage,
      .can_checkpoint = config::kConvolutions.holds(config) && !config.model.checkpointing,
      .can_use_graphs = context.device.is_cuda() && !config.train.cuda_graph,
      .augments_hue = config.augment.hue > 0,
      .verifies = config.data.verify == config::VerifyMode::kTrue,
      .steps_per_epoch = static_cast<double>(per_epoch),
      .saves_by_steps = config.checkpoint.every.steps > 0 || config.checkpoint.every.epochs > 0,
      .keeps_best = config.checkpoint.keep_best,
      .evaluations =
          times_per_step(config.train.eval_every, per_epoch, steps, measure::Phase::kEval),
      .checkpoints =
          times_per_step(config.checkpoint.every, per_epoch, steps, measure::Phase::kCheckpoint),
      .length_window = config.data.length_window,
      .length_classes = config.data.length_classes,
      .epochs = static_cast<double>(done) / static_cast<double>(per_epoch),
      .steps_left = static_cast<double>(context.batches.total_steps - done)};
  return run;
}

}  // namespace dtrain::train

#include "train/run_measurements.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <map>

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

monitoring::RankStats stats_of(size_t rank, const StepTimes& times, const ResourceSample& used, double steps) {
  return {.rank = static_cast<int>(rank),
          .times = times,
          .samples = used.samples / steps,
          .bytes = used.bytes / steps,
          .read_seconds = used.read / steps,
          .decode_seconds = used.decode / steps,
          .augment_seconds = used.augment / steps,
          .queue = used.queue,
          .run_delay_seconds = used.run_delay / steps,
          .cores = used.cores,
          .threads = used.threads,
          .memory_used = used.device_bytes,
          .gpu_utilization = used.gpu.utilization,
          .power = used.gpu.power,
          .energy = used.gpu.energy / steps,
          .temperature = used.gpu.temperature,
          .sm_clock = used.gpu.sm_clock};
}

// Those that the others wait for.
void keep_slowest(std::vector<monitoring::RankStats>& ranks) {
  constexpr size_t kAll = 64, kSlowest = 8;
  if (ranks.size() <= kAll) return;
  std::partial_sort(ranks.begin(), ranks.begin() + kSlowest, ranks.end(), [](const auto& a, const auto& b) {
    return a.times.of(monitoring::Phase::kAllReduceWait) < b.times.of(monitoring::Phase::kAllReduceWait);
  });
  ranks.resize(kSlowest);
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

void RunMeasurements::gather(const std::vector<StepTimes>& own, const ResourceSample& resources) {
  const size_t warm_up = std::min(left_out_, own.size());
  left_out_ -= warm_up;
  const size_t begin = std::max(warm_up, own.size() - std::min(own.size(), most_));
  const auto newest = own.begin() + static_cast<std::ptrdiff_t>(begin);
  const std::vector<StepTimes> all = dist::all_gather_values(host_, std::vector<StepTimes>(newest, own.end()));
  const std::vector<ResourceSample> samples = dist::all_gather_object(host_, resources);
  const auto ranks = static_cast<size_t>(host_.size());
  DTRAIN_CHECK(all.size() % ranks == 0, all.size(), " steps of ", ranks, " ranks");
  last_.clear();
  own_.reset();
  if (!all.empty()) {
    const size_t count = all.size() / ranks;
    const auto rank = static_cast<size_t>(host_.rank());
    own_ = stats_of(rank, mean_of(all.data() + rank * count, count), resources, static_cast<double>(own.size()));
  }
  if (host_.rank() != 0 || all.empty()) return;
  const size_t count = all.size() / ranks;
  keep(all, count);
  for (size_t rank = 0; rank < ranks; ++rank) {
    last_.push_back(
        stats_of(rank, mean_of(all.data() + rank * count, count), samples[rank], static_cast<double>(own.size())));
  }
  keep_slowest(last_);
  // Of the window in which the warm-up ends, the machine's part is not known.
  if (warm_up == 0) windows_.push_back({own.size(), samples});
  size_t kept = 0;
  for (const Window& window : windows_) kept += window.steps;
  while (windows_.size() > 1 && kept > most_) {
    kept -= windows_.front().steps;
    windows_.pop_front();
  }
}

void RunMeasurements::keep(const std::vector<StepTimes>& all, size_t count) {
  for (size_t rank = 0; rank < steps_.size(); ++rank) {
    const StepTimes* first = all.data() + rank * count;
    diagnose::Steps& steps = steps_[rank];
    steps.insert(steps.end(), first, first + count);
    if (steps.size() > most_) steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(most_));
  }
}

namespace {

// Bytes per step by a straight line through the windows; NaN for too few of them to tell a line from a jump.
double memory_growth(const std::deque<RunMeasurements::Window>& windows, size_t rank) {
  constexpr size_t kFewest = 6;
  if (windows.size() < kFewest) return diagnose::kUnknown;
  double steps = 0, x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(windows.size());
  for (const RunMeasurements::Window& window : windows) {
    steps += static_cast<double>(window.steps);
    const double bytes = window.ranks[rank].resident_bytes;
    x += steps / n;
    y += bytes / n;
    xx += steps * steps / n;
    xy += steps * bytes / n;
  }
  return (xy - x * y) / (xx - x * x);
}

void add_resources(const TrainContext& context, const std::deque<RunMeasurements::Window>& windows, size_t rank,
                   diagnose::RankEvidence& evidence) {
  double steps = 0;
  ResourceSample sum{.cpu = 0, .reader_cpu = 0, .compute_cpu = 0, .run_delay = 0, .throttled = 0};
  for (const RunMeasurements::Window& window : windows) {
    const ResourceSample& s = window.ranks[rank];
    steps += static_cast<double>(window.steps);
    sum.samples += s.samples;
    sum.bytes += s.bytes;
    sum.read += s.read;
    sum.decode += s.decode;
    sum.augment += s.augment;
    sum.cpu += s.cpu;
    sum.reader_cpu += s.reader_cpu;
    sum.compute_cpu += s.compute_cpu;
    sum.run_delay += s.run_delay;
    sum.throttled += s.throttled;
  }
  evidence.loader.threads = context.loader_threads;
  evidence.cores.cores = context.cores;
  evidence.cores.compute_threads = at::get_num_threads();
  if (steps == 0) return;
  evidence.loader = {.threads = context.loader_threads,
                     .samples = sum.samples / steps,
                     .bytes = sum.bytes / steps,
                     .read = sum.read / steps,
                     .decode = sum.decode / steps,
                     .augment = sum.augment / steps,
                     .cpu = sum.reader_cpu / steps};
  evidence.cores.cpu = sum.cpu / steps;
  evidence.cores.side_cpu = std::max(0.0, sum.cpu - sum.compute_cpu) / steps;
  evidence.cores.run_delay = sum.run_delay / steps;
  evidence.cores.throttled = sum.throttled / steps;
  evidence.memory = windows.back().ranks[rank].resident_bytes;
  evidence.memory_growth = memory_growth(windows, rank);
}

// Each rank measures its whole host; what the ranks of the host did not use themselves, others did.
void add_hosts(const std::deque<RunMeasurements::Window>& windows, const std::vector<std::string>& nodes, int cores,
               diagnose::RunEvidence& run) {
  std::map<std::string, int> known;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const auto [host, is_new] = known.emplace(nodes[rank], static_cast<int>(run.hosts.size()));
    run.ranks[rank].host = host->second;
    if (!is_new) continue;
    diagnose::HostUse use{.name = nodes[rank], .cores = static_cast<double>(cores)};
    double steps = 0, busy = 0, steal = 0;
    for (const RunMeasurements::Window& window : windows) {
      steps += static_cast<double>(window.steps);
      busy += window.ranks[rank].host_busy;
      steal += window.ranks[rank].host_steal;
      for (size_t other = 0; other < nodes.size(); ++other) {
        if (nodes[other] == nodes[rank]) busy -= window.ranks[other].cpu;
      }
    }
    if (steps > 0) {
      use.others_cpu = std::max(0.0, busy) / steps;
      use.steal = steal / steps;
      if (std::isnan(busy)) use.others_cpu = diagnose::kUnknown;
    }
    run.hosts.push_back(use);
  }
}

}  // namespace

diagnose::RunEvidence evidence_of(const TrainContext& context, const RunMeasurements& measured,
                                  const std::vector<std::string>& nodes, double padding_waste) {
  diagnose::RunEvidence run;
  for (size_t rank = 0; rank < measured.steps().size(); ++rank) {
    diagnose::RankEvidence evidence;
    evidence.steps = measured.steps()[rank];
    add_resources(context, measured.windows(), rank, evidence);
    run.ranks.push_back(std::move(evidence));
  }
  if (run.ranks.empty()) return run;
  add_hosts(measured.windows(), nodes, context.host_cores, run);
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

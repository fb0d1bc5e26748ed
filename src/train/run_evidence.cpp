#include "train/run_evidence.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "config/scope.h"
#include "train/precision.h"

namespace dtrain::train {
namespace {

using monitoring::StepTimes;
using Windows = std::deque<RunMeasurements::Window>;
using CoreMask = decltype(ResourceSample::allowed_cores);

constexpr int kTensorCores = 70;  // the first compute capability that has them

// Of the steps that were measured, the share that the phase follows: evaluations per step.
double share_with(const diagnose::Steps& steps, monitoring::Phase phase) {
  if (steps.empty()) return 0;
  const auto with = std::count_if(steps.begin(), steps.end(),
                                  [phase](const StepTimes& s) { return s.of(phase) > 0; });
  return static_cast<double>(with) / static_cast<double>(steps.size());
}

// As the interval plans them; where that is a time, as often as they happened.
double times_per_step(const config::Interval& every, int64_t steps_per_epoch,
                      const diagnose::Steps& steps, monitoring::Phase phase) {
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

// Nothing where all windows are kept.
const RunMeasurements::Earlier& earlier_of(const Windows& windows, size_t rank) {
  static const RunMeasurements::Earlier kNothing;
  return windows.front().earlier.empty() ? kNothing : windows.front().earlier[rank];
}

// Of the whole run up to now. The points are evenly spaced, so that half of them are of half of
// the run.
std::vector<diagnose::MemoryPoint> memory_of(const Windows& windows, size_t rank) {
  RunMeasurements::Earlier run = earlier_of(windows, rank);
  for (const RunMeasurements::Window& window : windows) run.add(window.steps, window.ranks[rank]);
  const double now = windows.back().ranks[rank].resident_bytes;
  if (std::isfinite(now) && run.memory.back().steps < run.steps)
    run.memory.push_back({run.steps, now});
  return run.memory;
}

// A mean over windows in which the GPU was read.
class TimeMean {
 public:
  void add(double value, double seconds) {
    if (!(seconds > 0) || !std::isfinite(value)) return;
    sum_ += value * seconds;
    seconds_ += seconds;
  }
  double value() const { return seconds_ > 0 ? sum_ / seconds_ : diagnose::kUnknown; }

 private:
  double sum_ = 0, seconds_ = 0;
};

// What counts up since the run began, per step of the windows: from the end of those before them,
// or where there are none, from the end of the first one. Unknown where that was just now.
double per_step(const Windows& windows, size_t rank, double RunTotals::*count) {
  const bool all = windows.front().earlier.empty();
  const RunTotals& begin =
      all ? windows.front().ranks[rank].so_far : windows.front().earlier[rank].totals;
  double steps = 0;
  for (size_t i = all ? 1 : 0; i < windows.size(); ++i)
    steps += static_cast<double>(windows[i].steps);
  return steps > 0 ? (windows.back().ranks[rank].so_far.*count - begin.*count) / steps
                   : diagnose::kUnknown;
}

diagnose::GpuUse gpu_use(const Windows& windows, size_t rank, const diagnose::Steps& steps) {
  diagnose::GpuUse use;
  TimeMean busy, clock, power_limited, heat_limited, temperature;
  double full = diagnose::kUnknown, highest = diagnose::kUnknown;
  for (const RunMeasurements::Window& window : windows) {
    const ResourceSample& s = window.ranks[rank];
    full = std::fmax(full, s.gpu.full_sm_clock);
    highest = std::fmax(highest, s.gpu.highest_sm_clock);
    busy.add(s.gpu.utilization, s.gpu.seconds);
    clock.add(s.gpu.working_sm_clock, s.gpu.seconds);
    power_limited.add(s.gpu.slowed_by_power / s.gpu.seconds, s.gpu.seconds);
    heat_limited.add(s.gpu.slowed_by_heat / s.gpu.seconds, s.gpu.seconds);
    temperature.add(s.gpu.temperature, s.gpu.seconds);
  }
  use.busy = busy.value();
  use.clock = clock.value();
  use.power_limited = power_limited.value();
  use.heat_limited = heat_limited.value();
  use.temperature = temperature.value();
  if (!steps.empty()) use.launch = 0;
  for (const StepTimes& step : steps) use.launch += step.launch / static_cast<double>(steps.size());
  if (windows.empty()) return use;
  const ResourceSample& last = windows.back().ranks[rank];
  use.full_clock_seen = full > 0;
  use.full_clock = use.full_clock_seen ? full : highest;
  use.power_limit = last.gpu.power_limit;
  use.default_power_limit = last.gpu.default_power_limit;
  use.memory_peak = last.so_far.device_peak;
  use.link_width = last.link_width;
  use.card_width = last.card_width;
  use.link_generation = last.link_generation;
  use.card_generation = last.card_generation;
  use.memory_total = last.gpu_memory;
  use.tensor_cores = last.gpu_capability >= kTensorCores;
  use.bf16 = has_bf16(at::kCUDA, last.gpu_capability);
  use.allocator_retries = per_step(windows, rank, &RunTotals::allocator_retries);
  return use;
}

diagnose::LossScale loss_scale_of(const Windows& windows) {
  diagnose::LossScale scale;
  if (windows.empty()) return scale;
  const double skipped = per_step(windows, 0, &RunTotals::skipped_steps);
  scale.now = windows.back().ranks[0].so_far.loss_scale;
  if (std::isfinite(skipped)) scale.skipped = skipped;
  return scale;
}

void add_resources(const Windows& windows, size_t rank, diagnose::RankEvidence& evidence) {
  double steps = 0;
  ResourceSample sum{.cpu = 0,
                     .compute_cpu = 0,
                     .run_delay = 0,
                     .comm_delay = 0,
                     .throttled = 0,
                     .disk_bytes = 0,
                     .major_faults = 0};
  for (const RunMeasurements::Window& window : windows) {
    const ResourceSample& s = window.ranks[rank];
    steps += static_cast<double>(window.steps);
    sum.loader += s.loader;
    sum.cpu += s.cpu;
    sum.compute_cpu += s.compute_cpu;
    sum.run_delay += s.run_delay;
    sum.comm_delay += s.comm_delay;
    sum.throttled += s.throttled;
    sum.disk_bytes += s.disk_bytes;
    sum.major_faults += s.major_faults;
  }
  if (steps == 0) return;
  const ResourceSample& now = windows.back().ranks[rank];
  const data::LoaderStats& read = sum.loader;
  evidence.loader = {.threads = now.loader_threads,
                     .bytes = static_cast<double>(read.bytes) / steps,
                     .read = read.read_seconds / steps,
                     .decode = read.decode_seconds / steps,
                     .augment = read.augment_seconds / steps};
  data::LoaderStats loads = read;
  loads += earlier_of(windows, rank).loads;
  const int64_t many = loads.samples - loads.few_samples;
  constexpr int64_t kEnough = 8;  // samples: of fewer the mean says little
  if (loads.few_samples >= kEnough && many >= kEnough) {
    evidence.loader.few_service = loads.few_seconds / static_cast<double>(loads.few_samples);
    evidence.loader.many_service =
        (loads.service_seconds() - loads.few_seconds) / static_cast<double>(many);
  }
  evidence.cores.cpu = sum.cpu / steps;
  evidence.cores.side_cpu = std::max(0.0, sum.cpu - sum.compute_cpu) / steps;
  evidence.cores.run_delay = sum.run_delay / steps;
  evidence.cores.comm_delay = sum.comm_delay / steps;
  evidence.cores.throttled = sum.throttled / steps;
  evidence.cores.cores = count_of(now.allowed_cores, now.cores);
  evidence.cores.compute_threads = now.compute_threads;
  evidence.memory = memory_of(windows, rank);
  evidence.disk_bytes = sum.disk_bytes / steps;
  evidence.major_faults = sum.major_faults / steps;
  evidence.gpu = gpu_use(windows, rank, evidence.steps);
}

// What the ranks of a host measured of it, as the first of them saw it; what they did not use
// themselves, others did.
diagnose::HostUse host_use(const Windows& windows, const std::vector<size_t>& ranks) {
  diagnose::HostUse use;
  double steps = 0, busy = 0, idle = 0, io_wait = 0, steal = 0, swapped_in = 0, read_again = 0;
  for (const RunMeasurements::Window& window : windows) {
    const ResourceSample& first = window.ranks[ranks[0]];
    steps += static_cast<double>(window.steps);
    busy += first.host_busy;
    idle += first.host_idle;
    io_wait += first.host_io_wait;
    steal += first.host_steal;
    swapped_in += first.swapped_in;
    read_again += first.read_again;
    for (const size_t rank : ranks) busy -= window.ranks[rank].cpu;
  }
  if (steps == 0) return use;
  CoreMask allowed{};
  for (const size_t rank : ranks) {
    const CoreMask& mask = windows.back().ranks[rank].allowed_cores;
    for (size_t i = 0; i < mask.size(); ++i) allowed[i] |= mask[i];
  }
  use.job_cores = count_of(allowed, diagnose::kUnknown);
  use.others_cpu = std::isnan(busy) ? busy : std::max(0.0, busy) / steps;
  use.cores = windows.back().ranks[ranks[0]].host_cores;
  use.idle = idle / steps;
  use.io_wait = io_wait / steps;
  use.steal = steal / steps;
  use.swapped_in = swapped_in / steps;
  use.read_again = read_again / steps;
  use.free_memory = windows.back().ranks[ranks[0]].free_memory;
  return use;
}

// The kernel adds up what it withheld from each core on which a thread of the group wanted to run,
// so no more cores than threads. Ranks of one group read the same sum.
void divide_throttled_time(const std::vector<size_t>& ranks, const diagnose::HostUse& host,
                           diagnose::RunEvidence& run) {
  const auto throttled = [&](size_t rank) -> double& { return run.ranks[rank].cores.throttled; };
  const auto [least, most] = std::minmax_element(
      ranks.begin(), ranks.end(), [&](size_t a, size_t b) { return throttled(a) < throttled(b); });
  const bool one_group = throttled(*least) > 0.8 * throttled(*most);
  const auto threads_of = [&](size_t rank) {
    return run.ranks[rank].cores.compute_threads + run.ranks[rank].loader.threads;
  };
  int threads_of_all = 0;
  for (const size_t rank : ranks) threads_of_all += threads_of(rank);
  for (const size_t rank : ranks) {
    const double cores =
        one_group && host.job_cores > 0 ? host.job_cores : run.ranks[rank].cores.cores;
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
    run.ranks[rank].cores.cores /= static_cast<double>(share);
  }
}

void add_hosts(const Windows& windows, const std::vector<std::string>& nodes,
               diagnose::RunEvidence& run) {
  std::map<std::string, std::vector<size_t>> ranks_of;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) ranks_of[nodes[rank]].push_back(rank);
  for (const auto& [name, ranks] : ranks_of) {
    diagnose::HostUse use = host_use(windows, ranks);
    use.name = name;
    for (const size_t rank : ranks) run.ranks[rank].host = static_cast<int>(run.hosts.size());
    divide_throttled_time(ranks, use, run);
    divide_cores(windows, ranks, run);
    run.hosts.push_back(std::move(use));
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
  use.messages =
      static_cast<double>(use.plan.bytes.size() + 1);  // with the sums of loss and weight
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
    add_resources(windows, rank, evidence);
    run.ranks.push_back(std::move(evidence));
  }
  if (run.ranks.empty()) return run;
  add_hosts(windows, nodes, run);
  run.loss_scale = loss_scale_of(windows);
  return run;
}

diagnose::RunEvidence evidence_of(const TrainContext& context, const RunMeasurements& measured,
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
      .augments_hue = config.augment.hue > 0,
      .verifies = config.data.verify == config::Verify::kTrue,
      .steps_per_epoch = static_cast<double>(per_epoch),
      .saves_by_steps = config.checkpoint.every.steps > 0 || config.checkpoint.every.epochs > 0,
      .keeps_best = config.checkpoint.keep_best,
      .evaluations =
          times_per_step(config.train.eval_every, per_epoch, steps, monitoring::Phase::kEval),
      .checkpoints =
          times_per_step(config.checkpoint.every, per_epoch, steps, monitoring::Phase::kCheckpoint),
      .length_window = config.data.length_window,
      .length_classes = config.data.length_classes,
      .epochs = static_cast<double>(done) / static_cast<double>(per_epoch),
      .steps_left = static_cast<double>(context.batches.total_steps - done)};
  return run;
}

}  // namespace dtrain::train

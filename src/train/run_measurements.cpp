#include "train/run_measurements.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "dist/object_collectives.h"

namespace dtrain::train {
namespace {

using monitoring::StepTimes;

// What a verdict looks at, so that it takes milliseconds at any number of ranks.
constexpr size_t kMostValues = 20000, kMostSteps = 500, kFewestSteps = 40;

StepTimes mean_of(const StepTimes* begin, size_t count) {
  StepTimes mean;
  for (size_t i = 0; i < count; ++i) {
    for (size_t phase = 0; phase < mean.phases.size(); ++phase)
      mean.phases[phase] += begin[i].phases[phase];
    for (size_t bucket = 0; bucket < mean.buckets.size(); ++bucket)
      mean.buckets[bucket] += begin[i].buckets[bucket];
    mean.wall += begin[i].wall;
    mean.launch += begin[i].launch;
    mean.padded.rows += begin[i].padded.rows;
    mean.padded.cells += begin[i].padded.cells;
  }
  for (double& seconds : mean.buckets) seconds /= static_cast<double>(count);
  for (double& seconds : mean.phases) seconds /= static_cast<double>(count);
  mean.wall /= static_cast<double>(count);
  mean.launch /= static_cast<double>(count);
  mean.padded.rows /= static_cast<double>(count);
  mean.padded.cells /= static_cast<double>(count);
  return mean;
}

monitoring::HostStats host_of(const ResourceSample& used, double steps) {
  return {.cores = used.host_cores,
          .busy = used.host_busy / steps,
          .idle = used.host_idle / steps,
          .io_wait = used.host_io_wait / steps,
          .steal = used.host_steal / steps,
          .swapped_in = used.swapped_in / steps,
          .read_again = used.read_again / steps,
          .free_memory = used.free_memory};
}

monitoring::RankStats stats_of(size_t rank, const StepTimes& times, const ResourceSample& used,
                               double steps) {
  return {.rank = static_cast<int>(rank),
          .times = times,
          .samples = static_cast<double>(used.loader.samples) / steps,
          .bytes = static_cast<double>(used.loader.bytes) / steps,
          .read_seconds = used.loader.read_seconds / steps,
          .decode_seconds = used.loader.decode_seconds / steps,
          .augment_seconds = used.loader.augment_seconds / steps,
          .few_samples = static_cast<double>(used.loader.few_samples) / steps,
          .few_seconds = used.loader.few_seconds / steps,
          .empty_seconds = used.loader.wait_seconds / steps,
          .full_seconds = used.loader.full_seconds / steps,
          .queue = used.queue,
          .cpu_seconds = used.cpu / steps,
          .compute_seconds = used.compute_cpu / steps,
          .run_delay_seconds = used.run_delay / steps,
          .comm_delay_seconds = used.comm_delay / steps,
          .throttled_seconds = used.throttled / steps,
          .cores = used.cores,
          .threads = used.threads,
          .memory_used = used.device_bytes,
          .disk_bytes = used.disk_bytes / steps,
          .major_faults = used.major_faults / steps,
          .host = host_of(used, steps),
          .link = {.width = used.link_width,
                   .card_width = used.card_width,
                   .generation = used.link_generation,
                   .card_generation = used.card_generation},
          .gpu_utilization = used.gpu.utilization,
          .power = used.gpu.power,
          // Sensors are read every few seconds: one reading may stand for many windows, most of
          // which have none.
          .energy = used.gpu.energy / used.gpu.energy_seconds * used.seconds / steps,
          .temperature = used.gpu.temperature,
          .sm_clock = used.gpu.sm_clock,
          .slowed_by_power = used.gpu.slowed_by_power / used.gpu.seconds,  // NaN without readings
          .slowed_by_heat = used.gpu.slowed_by_heat / used.gpu.seconds};
}

// Those that the others wait for.
void keep_slowest(std::vector<monitoring::RankStats>& ranks) {
  constexpr size_t kAll = 64, kSlowest = 8;
  if (ranks.size() <= kAll) return;
  std::partial_sort(ranks.begin(), ranks.begin() + kSlowest, ranks.end(),
                    [](const auto& a, const auto& b) {
                      return a.times.of(monitoring::Phase::kAllReduceWait) <
                             b.times.of(monitoring::Phase::kAllReduceWait);
                    });
  ranks.resize(kSlowest);
}

double without_wait(const StepTimes& times) {
  return times.wall - times.of(monitoring::Phase::kAllReduceWait);
}

// `all`: `count` steps of each rank. The rank that waits least for the others waits for the
// network alone.
monitoring::SlowStep slowest_of(const std::vector<StepTimes>& all, size_t count) {
  monitoring::SlowStep slowest;
  double longest = -1;
  for (size_t i = 0; i < count; ++i) {
    size_t late = 0;
    double network = all[i].of(monitoring::Phase::kAllReduceWait);
    for (size_t rank = 1; rank * count < all.size(); ++rank) {
      const StepTimes& times = all[rank * count + i];
      if (without_wait(times) > without_wait(all[late * count + i])) late = rank;
      network = std::min(network, times.of(monitoring::Phase::kAllReduceWait));
    }
    const StepTimes& times = all[late * count + i];
    if (without_wait(times) + network <= longest) continue;
    longest = without_wait(times) + network;
    slowest = {.step = static_cast<int64_t>(i) - static_cast<int64_t>(count - 1),
               .rank = static_cast<int>(late),
               .times = times};
  }
  return slowest;
}

}  // namespace

void RunMeasurements::Earlier::add(size_t of_window, const ResourceSample& used) {
  constexpr size_t kMostPoints = 64;
  loads += used.loader;
  totals = used.so_far;
  steps += static_cast<double>(of_window);
  if (!std::isfinite(used.resident_bytes) ||
      (!memory.empty() && steps < memory.back().steps + spacing))
    return;
  memory.push_back({steps, used.resident_bytes});
  if (memory.size() < kMostPoints) return;
  for (size_t i = 0; 2 * i < memory.size(); ++i) memory[i] = memory[2 * i];
  memory.resize(kMostPoints / 2);
  spacing = steps / static_cast<double>(memory.size());
}

RunMeasurements::RunMeasurements(dist::Communicator& host)
    : host_(host),
      most_(std::clamp(kMostValues / static_cast<size_t>(host.size()), kFewestSteps, kMostSteps)),
      left_out_(kWarmUpSteps) {
  if (host.rank() == 0) steps_.resize(static_cast<size_t>(host.size()));
}

void RunMeasurements::gather(const std::vector<StepTimes>& own, const ResourceSample& resources,
                             bool of_steps_alone) {
  const size_t warm_up = std::min(left_out_, own.size());
  left_out_ -= warm_up;
  const size_t begin = std::max(warm_up, own.size() - std::min(own.size(), most_));
  const auto newest = own.begin() + static_cast<std::ptrdiff_t>(begin);
  const std::vector<StepTimes> all =
      dist::all_gather_values(host_, std::vector<StepTimes>(newest, own.end()));
  const std::vector<ResourceSample> samples = dist::all_gather_object(host_, resources);
  const auto ranks = static_cast<size_t>(host_.size());
  DTRAIN_CHECK(all.size() % ranks == 0, all.size(), " steps of ", ranks, " ranks");
  last_.clear();
  own_.reset();
  // Of very many steps the clock keeps the newest alone, and the resources are of all of them.
  const double ended = std::max(static_cast<double>(own.size()), resources.steps);
  slowest_.reset();
  if (!own.empty()) {
    const size_t first = begin < own.size() ? begin : 0;  // of warm-up alone, those
    own_ = stats_of(static_cast<size_t>(host_.rank()),
                    mean_of(own.data() + first, own.size() - first), resources, ended);
  }
  if (host_.rank() != 0 || all.empty()) return;
  const size_t count = all.size() / ranks;
  keep(all, count);
  slowest_ = slowest_of(all, count);
  for (size_t rank = 0; rank < ranks; ++rank) {
    last_.push_back(
        stats_of(rank, mean_of(all.data() + rank * count, count), samples[rank], ended));
  }
  keep_slowest(last_);
  // Of a window in which the warm-up ends, the machine's part is not known. One with more than
  // steps in it is better than none, as where a run that seldom logs is stopped.
  if (warm_up == 0 && (of_steps_alone || windows_.empty()))
    windows_.push_back({static_cast<size_t>(ended), samples});
  size_t kept = 0;
  for (const Window& window : windows_) kept += window.steps;
  while (windows_.size() > 1 && kept > most_) {
    kept -= windows_.front().steps;
    std::vector<Earlier> earlier = std::move(windows_.front().earlier);
    earlier.resize(ranks);
    for (size_t rank = 0; rank < ranks; ++rank)
      earlier[rank].add(windows_.front().steps, windows_.front().ranks[rank]);
    windows_.pop_front();
    windows_.front().earlier = std::move(earlier);
  }
}

std::optional<monitoring::SlowStep> RunMeasurements::slowest(int64_t newest) const {
  std::optional<monitoring::SlowStep> slowest = slowest_;
  if (slowest) slowest->step += newest;
  return slowest;
}

void RunMeasurements::keep(const std::vector<StepTimes>& all, size_t count) {
  for (size_t rank = 0; rank < steps_.size(); ++rank) {
    const StepTimes* first = all.data() + rank * count;
    diagnose::Steps& steps = steps_[rank];
    steps.insert(steps.end(), first, first + count);
    if (steps.size() > most_)
      steps.erase(steps.begin(), steps.end() - static_cast<std::ptrdiff_t>(most_));
  }
}

}  // namespace dtrain::train

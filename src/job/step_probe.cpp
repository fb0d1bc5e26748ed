#include "job/step_probe.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <optional>
#include <set>

#include "core/log.h"
#include "device/device.h"
#include "dist/failure.h"
#include "dist/object_collectives.h"
#include "dist/side_stream.h"
#include "job/step_trial.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

constexpr int64_t kFewestSteps = 2;
constexpr int64_t kBucketSteps = 3;
constexpr double kLongestHold = 2;  // seconds
constexpr int kHeldTrials = 3;

// Runs `work` on all ranks, which may find its memory full but not wait for another rank after
// that. Returns what the first such rank says, with advice; "" if there is none. Collective.
template <typename Work>
std::string out_of_memory(dist::Communicator& host, const StepTrial& trial, const Work& work) {
  std::optional<dist::MissingMemory> missing;
  try {
    work();
  } catch (...) {
    missing = dist::missing_memory(std::current_exception());
    if (!missing) throw;
  }
  std::string mine;
  if (missing) {
    const std::string advice = trial.context().memory_advice(missing->bytes);
    mine = missing->what + (advice.empty() ? "" : ": " + advice);
  }
  const std::vector<std::string> all = dist::all_gather_object(host, mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty())
      return host.size() == 1 ? all[rank] : str("rank ", rank, ": ", all[rank]);
  }
  return "";
}

double mean_rows_of(const DataSet& data) {
  if (!data.store->schema().input.variable() || data.splits.train.empty())
    return StepProbe::kUnknown;
  double rows = 0;
  for (const int64_t id : data.splits.train)
    rows += static_cast<double>(data.store->input_rows(id));
  return rows / static_cast<double>(data.splits.train.size());
}

int64_t steps_within(double seconds, double step_seconds, int64_t most) {
  const double fitting = step_seconds > 0 ? seconds / step_seconds : static_cast<double>(most);
  return std::max(kFewestSteps, static_cast<int64_t>(std::min(fitting, static_cast<double>(most))));
}

// One step whose kernels all wait for the device to be free, and then run without gaps: the phases
// of a GPU are timed on the device. kUnknown if the device was free before the last of them was
// issued: the host was too slow, or it waited in the step, because the step logs or has more
// launches than the queue of the GPU holds (about 1000).
double held_step(train::StepRunner& runner, at::Device device, double step_seconds) {
  device::hold(device, std::min(kLongestHold, 2 * step_seconds + 0.02));
  const dist::Mark free(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  bool in_time = false;
  const train::MeasuredSteps held = runner.measure(1, [&] { in_time = !free.passed(); });
  return in_time ? held.seconds - held.other_seconds() : StepProbe::kUnknown;
}

// Of the slowest rank. Collective.
double time_of_kernels(dist::Communicator& host, train::StepRunner& runner, at::Device device,
                       double step_seconds) {
  double slowest = StepProbe::kUnknown;
  for (int trial = 0; trial < kHeldTrials && std::isnan(slowest); ++trial) {
    slowest = slowest_of(dist::all_gather_object(host, held_step(runner, device, step_seconds)));
  }
  return slowest;
}

std::vector<dist::BucketTime> of_first_rank_with_any(dist::Communicator& host,
                                                     const std::vector<dist::BucketTime>& mine) {
  std::vector<dist::BucketTime> all = dist::all_gather_values(host, mine);
  for (const size_t count : dist::all_gather_object(host, mine.size())) {
    if (count == 0) continue;
    all.resize(count);  // the ranks before it have none
    break;
  }
  return all;
}

// What one phase of the task takes on this rank; what has no number of its own is of all ranks.
struct PhaseProbe {
  train::MeasuredSteps steps;
  double kernel_seconds = StepProbe::kUnknown, cached_seconds = StepProbe::kUnknown;
  std::vector<dist::BucketTime> buckets;

  int64_t bytes() const {
    return std::accumulate(
        buckets.begin(), buckets.end(), int64_t{0},
        [](int64_t sum, const dist::BucketTime& bucket) { return sum + bucket.bytes; });
  }
};

// `share`: of the steps and seconds. Collective.
PhaseProbe measure_phase(const ProcessContext& process, train::StepRunner& runner,
                         const StepProbeOptions& options, double share) {
  dist::Communicator& host = process.host;
  const int64_t warm = std::max<int64_t>(1, options.warm_steps);
  PhaseProbe probe;
  // Makes what stays: thread pools, connections, and algorithms that are chosen once
  runner.measure(1);
  if (options.steps == 0) return probe;
  if (const int64_t more = runner.steps_before_graphs(); more > 0)
    runner.measure(more);  // the last of them is captured
  const train::MeasuredSteps last_warm = runner.measure(std::max<int64_t>(1, warm - 1));
  const double expected =
      dist::largest_of_ranks(host, last_warm.seconds / static_cast<double>(last_warm.steps));
  const double seconds = share * options.seconds,
               most = std::ceil(share * static_cast<double>(options.steps));
  probe.steps = runner.measure(steps_within(seconds, expected, static_cast<int64_t>(most)));
  if (options.cached) {
    const train::MeasuredSteps headroom = runner.measure_headroom(seconds);
    probe.cached_seconds =
        dist::largest_of_ranks(host, headroom.seconds / static_cast<double>(headroom.steps));
  }
  if (!options.details) return probe;
  const at::Device device = process.device;
  if (!device.is_cpu()) probe.kernel_seconds = time_of_kernels(host, runner, device, expected);
  probe.buckets = of_first_rank_with_any(host, runner.time_buckets(kBucketSteps));
  return probe;
}

void measure(const ProcessContext& process, train::StepRunner& runner,
             const std::vector<train::RunPhase>& phases, const StepProbeOptions& options,
             StepProbe& probe) {
  std::vector<double> shares, kernels, cached;
  std::vector<train::MeasuredSteps> steps;
  PhaseProbe largest;
  double epochs = 0;
  for (const train::RunPhase& phase : phases) epochs += static_cast<double>(phase.epochs);
  for (const train::RunPhase& phase : phases) {
    runner.measure_phase_of(phase.first_epoch);
    shares.push_back(static_cast<double>(phase.epochs) / epochs);
    PhaseProbe one = measure_phase(process, runner, options, shares.back());
    steps.push_back(one.steps);
    kernels.push_back(one.kernel_seconds);
    cached.push_back(one.cached_seconds);
    if (one.bytes() > largest.bytes()) largest = std::move(one);
  }
  if (options.steps == 0) return;
  probe.ranks = dist::all_gather_object(process.host, train::mean_over_phases(steps, shares));
  probe.kernel_seconds = std::inner_product(kernels.begin(), kernels.end(), shares.begin(), 0.0);
  probe.cached_seconds = std::inner_product(cached.begin(), cached.end(), shares.begin(), 0.0);
  probe.buckets = std::move(largest.buckets);
}

}  // namespace

double StepProbe::step_seconds() const {
  double slowest = kUnknown;
  for (const train::MeasuredSteps& rank : ranks) {
    slowest = std::fmax(slowest, rank.seconds / static_cast<double>(rank.steps));
  }
  return slowest;
}

double StepProbe::samples_per_second() const {
  if (ranks.empty()) return kUnknown;
  return length_ratio() * static_cast<double>(ranks[0].samples) /
         (step_seconds() * static_cast<double>(ranks[0].steps));
}

double StepProbe::length_ratio() const {
  double rows = 0;
  for (const train::MeasuredSteps& rank : ranks) rows += rank.padded.rows;
  if (rows == 0 || std::isnan(mean_rows)) return 1;
  return rows / (mean_rows * static_cast<double>(ranks[0].samples));
}

double slowest_of(std::span<const double> seconds) {
  double slowest = seconds.empty() ? StepProbe::kUnknown : 0;
  for (const double one : seconds)
    slowest = std::isnan(one) ? one : std::max(slowest, one);  // which is NaN once it is
  return slowest;
}

double StepProbe::launch_gap_seconds() const {
  return std::isnan(kernel_seconds) ? kUnknown : std::max(0.0, step_seconds() - kernel_seconds);
}

StepProbe probe_step(const ConnectedRun& run, const StepProbeOptions& options) {
  const log::Quiet quiet;  // every trial says which phase it enters
  const ProcessContext& process = run.process;
  dist::Communicator& host = process.host;
  StepProbe probe;
  probe.batch_size = options.batch_size > 0 ? options.batch_size : run.batches.batch_size;
  probe.accumulate = options.accumulate > 0 ? options.accumulate : run.batches.accumulate;
  StepTrial trial(run, {.batch_size = probe.batch_size,
                        .accumulate = probe.accumulate,
                        .change = options.change,
                        .whole_steps = true});
  train::StepMemory mine;
  const std::vector<train::RunPhase> phases = run.phases();
  for (const train::RunPhase& phase : phases) {
    probe.out_of_memory = out_of_memory(host, trial, [&] {
      trial.runner().measure_phase_of(phase.first_epoch);
      mine = larger_with_next_phase(mine, trial.runner().measure_memory());
    });
    if (!probe.measured()) return probe;
  }
  probe.mean_rows = mean_rows_of(run.data);
  const auto measure_phases = [&] { measure(process, trial.runner(), phases, options, probe); };
  if (host.size() == 1) {
    probe.out_of_memory = out_of_memory(host, trial, measure_phases);
    if (!probe.measured()) probe.ranks.clear();
  } else {
    measure_phases();
  }
  const std::vector<train::StepMemory> memory = dist::all_gather_object(host, mine);
  probe.memory = *std::max_element(memory.begin(), memory.end(), [](const auto& a, const auto& b) {
    return a.total() < b.total();
  });
  const auto used = static_cast<double>(device::memory_use(process.device).peak);
  probe.process_memory = static_cast<int64_t>(dist::largest_of_ranks(host, used));
  return probe;
}

std::vector<int64_t> batch_sizes_around(int64_t batch_size, int64_t most) {
  std::set<int64_t> sizes;
  for (const int64_t size :
       {batch_size / 4, batch_size / 2, batch_size, 2 * batch_size, 4 * batch_size}) {
    sizes.insert(std::clamp<int64_t>(size, 1, std::max<int64_t>(1, most)));
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace dtrain::job

#include "job/step_probe.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>

#include "core/library_text.h"
#include "core/quiet_log.h"
#include "core/strings.h"
#include "device/device.h"
#include "dist/failure.h"
#include "dist/object_collectives.h"

namespace dtrain::job {
namespace {

constexpr int64_t kFewestSteps = 2;
constexpr int64_t kBucketSteps = 3;
constexpr double kLongestHold = 2;  // seconds

// What a rank could not allocate.
struct Missing {
  std::string what = "the host's memory is full";  // for the table
  double bytes = 0;                                // 0: not known
};

// Rethrows an error that is about something else.
Missing missing_memory(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    return {};
  } catch (const c10::Error& e) {
    if (const std::optional<double> bytes = out_of_host_memory(e.what_without_backtrace())) {
      if (*bytes == 0) return {};
      return {str("no host memory for a tensor of ", human_bytes(*bytes)), *bytes};
    }
    if (dist::is_out_of_memory(e)) {
      return {dist::first_line(e), bytes_out_of_device_memory(e.what_without_backtrace())};
    }
    throw;
  }
}

// Runs `work` on all ranks, which may find its memory full but not wait for another rank after that. Returns what the
// first such rank says, with advice; "" if there is none. Collective.
template <typename Work>
std::string out_of_memory(const TrainingJob& job, const Work& work) {
  dist::Communicator& host = job.process().host;
  std::optional<Missing> missing;
  try {
    work();
  } catch (...) {
    missing = missing_memory(std::current_exception());
  }
  std::string mine;
  if (missing) {
    const std::string advice = job.memory_advice(missing->bytes);
    mine = missing->what + (advice.empty() ? "" : ": " + advice);
  }
  const std::vector<std::string> all = dist::all_gather_object(host, mine);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return host.size() == 1 ? all[rank] : str("rank ", rank, ": ", all[rank]);
  }
  return "";
}

int64_t steps_within(double seconds, double step_seconds, int64_t most) {
  const double fitting = step_seconds > 0 ? seconds / step_seconds : static_cast<double>(most);
  return std::max(kFewestSteps, static_cast<int64_t>(std::min(fitting, static_cast<double>(most))));
}

// One step whose kernels all wait for the device to be free, and then run without gaps: the phases of a GPU are timed
// on the device.
double time_of_kernels(train::Trainer& trainer, at::Device device, double step_seconds) {
  device::hold(device, std::min(kLongestHold, 2 * step_seconds + 0.02));
  const train::MeasuredSteps held = trainer.measure(1);
  return held.seconds - held.other_seconds();
}

std::vector<dist::BucketTime> of_first_rank_with_any(dist::Communicator& host,
                                                     const std::vector<dist::BucketTime>& mine) {
  const auto bytes = std::as_bytes(std::span(mine));
  std::vector<dist::BucketTime> found;
  for (const dist::Bytes& theirs : dist::all_gather_object(host, dist::Bytes(bytes.begin(), bytes.end()))) {
    if (theirs.empty()) continue;
    found.resize(theirs.size() / sizeof(dist::BucketTime));
    std::memcpy(found.data(), theirs.data(), theirs.size());
    break;
  }
  return found;
}

void measure(TrainingJob& job, train::Trainer& trainer, const StepProbeOptions& options, StepProbe& probe) {
  dist::Communicator& host = job.process().host;
  const int64_t warm = std::max<int64_t>(1, options.warm_steps);
  trainer.measure(1);  // makes what stays: thread pools, connections, and algorithms that are chosen once
  if (options.steps == 0) return;
  const train::MeasuredSteps last_warm = trainer.measure(std::max<int64_t>(1, warm - 1));
  const double expected = dist::largest_of_ranks(host, last_warm.seconds / static_cast<double>(last_warm.steps));
  const int64_t steps = steps_within(options.seconds, expected, options.steps);
  probe.ranks = dist::all_gather_object(host, trainer.measure(steps));
  if (options.cached) {
    const train::MeasuredSteps headroom = trainer.measure_headroom(options.seconds);
    probe.cached_seconds = dist::largest_of_ranks(host, headroom.seconds / static_cast<double>(headroom.steps));
  }
  if (!options.details) return;
  const at::Device device = job.process().device;
  if (!device.is_cpu()) probe.kernel_seconds = dist::largest_of_ranks(host, time_of_kernels(trainer, device, expected));
  probe.buckets = of_first_rank_with_any(host, trainer.time_buckets(kBucketSteps));
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
  return static_cast<double>(ranks[0].samples) / (step_seconds() * static_cast<double>(ranks[0].steps));
}

double StepProbe::launch_gap_seconds() const {
  return std::isnan(kernel_seconds) ? kUnknown : std::max(0.0, step_seconds() - kernel_seconds);
}

StepProbe probe_step(TrainingJob& job, const StepProbeOptions& options) {
  const log::Quiet quiet;  // every trainer says which phase it enters
  dist::Communicator& host = job.process().host;
  StepProbe probe;
  probe.batch_size = options.batch_size > 0 ? options.batch_size : job.batches().batch_size;
  probe.accumulate = options.accumulate > 0 ? options.accumulate : job.batches().accumulate;
  std::unique_ptr<train::Trainer> trainer;
  train::StepMemory mine;
  probe.out_of_memory = out_of_memory(job, [&] {
    trainer = job.make_trainer({.batch_size = probe.batch_size,
                                .accumulate = probe.accumulate,
                                .prefetch = options.prefetch,
                                .loader_threads = options.loader_threads,
                                .whole_steps = true});
    mine = trainer->measure_memory();
  });
  if (!probe.measured()) return probe;
  if (host.size() == 1) {
    probe.out_of_memory = out_of_memory(job, [&] { measure(job, *trainer, options, probe); });
    if (!probe.measured()) probe.ranks.clear();
  } else {
    measure(job, *trainer, options, probe);
  }
  const std::vector<train::StepMemory> memory = dist::all_gather_object(host, mine);
  probe.memory = *std::max_element(memory.begin(), memory.end(),
                                   [](const auto& a, const auto& b) { return a.total() < b.total(); });
  const auto used = static_cast<double>(device::memory_use(job.process().device).peak);
  probe.process_memory = static_cast<int64_t>(dist::largest_of_ranks(host, used));
  return probe;
}

std::vector<int64_t> batch_sizes_around(int64_t batch_size, int64_t most) {
  std::set<int64_t> sizes;
  for (const int64_t size : {batch_size / 4, batch_size / 2, batch_size, 2 * batch_size, 4 * batch_size}) {
    sizes.insert(std::clamp<int64_t>(size, 1, std::max<int64_t>(1, most)));
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace dtrain::job

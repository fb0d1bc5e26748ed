#include "job/emulation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <latch>
#include <mutex>
#include <thread>

#include "core/check.h"
#include "core/clock.h"
#include "core/error.h"
#include "data/loader/loader.h"
#include "data/order/shard.h"
#include "device/device.h"
#include "job/data_set.h"
#include "text/strings.h"
#include "train/loader_options.h"

namespace dtrain::job {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kPrefetch = 2;  // batches: one is used while the next ones are read
// steps: what was read ahead, and the batch that was read meanwhile
constexpr int kUntimed = kPrefetch + 2;
constexpr int kFewestSteps = 8;

struct Fed {  // one accelerator
  double busy_seconds = 0, seconds = 0;
  int64_t samples = 0;
};

// Takes batches for at least `seconds` of its own time, but gives up on a loader that makes it wait
// for too long.
Fed feed(data::Loader& loader, const Accelerator& accelerator, int64_t batch_size, double seconds) {
  const double compute = accelerator.compute_seconds * static_cast<double>(batch_size) /
                         static_cast<double>(accelerator.batch_size);
  const auto steps = std::max<int64_t>(kFewestSteps, std::llround(std::ceil(seconds / compute)));
  const double deadline = 3 * compute * static_cast<double>(steps);
  Fed fed;
  auto began = SteadyClock::now();
  for (int64_t step = -kUntimed; step < steps && seconds_since(began) < deadline; ++step) {
    if (step == 0) {
      began = SteadyClock::now();
      fed = {};
    }
    const data::Batch batch = loader.next();
    const auto taken = SteadyClock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(
        compute * static_cast<double>(batch.samples()) / static_cast<double>(batch_size)));
    fed.busy_seconds += seconds_since(taken);
    fed.samples += batch.samples();
    fed.seconds = seconds_since(began);
  }
  return fed;
}

// Runs `count` accelerators side by side.
Utilization run_accelerators(const PreparedRun& run, const Accelerator& accelerator, int count,
                             double seconds) {
  const std::vector<int64_t>& all = run.data.splits.train;
  const ProcessContext& process = run.process;
  std::vector<Fed> fed(static_cast<size_t>(count));
  std::latch ready(count);
  std::mutex mutex;
  std::exception_ptr error;  // the first
  const auto run_one = [&](int index) {
    bool is_ready = false;
    try {
      device::use(process.device);
      const data::Range own = data::part(static_cast<int64_t>(all.size()), count, index);
      const std::vector<int64_t> ids(all.begin() + own.begin, all.begin() + own.end);
      const int64_t batch_size = std::min(accelerator.batch_size, own.size());
      data::LoaderOptions options = train::loader_options(
          run.config, run.batches,
          reader_threads(run.config.data.workers, std::max(1, process.cores / count)),
          process.device);
      options.batch_size = options.global_batch = batch_size;
      options.prefetch = kPrefetch;
      data::Loader loader(*run.data.store, ids, run.task->samples(), options, {});
      is_ready = true;
      ready.arrive_and_wait();
      fed[static_cast<size_t>(index)] = feed(loader, accelerator, batch_size, seconds);
    } catch (...) {
      if (!is_ready) ready.count_down();
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back(run_one, i);
  }
  if (error) std::rethrow_exception(error);
  Utilization result{.accelerators = count};
  for (const Fed& one : fed) {
    result.utilization += one.busy_seconds / one.seconds / count;
    result.samples_per_second += static_cast<double>(one.samples) / one.seconds;
  }
  return result;
}

// How many accelerators have room for their batches in a quarter of the memory of the machine.
int most_in_memory(const PreparedRun& run, const Accelerator& accelerator) {
  data::LoaderOptions options = train::loader_options(run.config, run.batches, 1, at::kCPU);
  options.batch_size = options.global_batch = 1;
  options.prefetch = 1;
  data::Loader loader(*run.data.store, run.data.splits.train, run.task->samples(), options, {});
  const data::Batch sample = loader.next();
  const auto bytes = static_cast<double>(sample.inputs.nbytes() + sample.targets.nbytes()) *
                     static_cast<double>(accelerator.batch_size * (kPrefetch + 2));
  const auto memory = static_cast<double>(device::properties(at::kCPU).memory_bytes);
  return std::max(1, static_cast<int>(std::min(1e6, memory / 4 / std::max(1.0, bytes))));
}

}  // namespace

const std::vector<Accelerator>& accelerators() {
  static const std::vector<Accelerator> all = {
      {"resnet50-h100", 400, 0.224, 0.9, 114'660},   {"resnet50-a100", 400, 0.435, 0.9, 114'660},
      {"unet3d-h100", 7, 0.323, 0.9, 146'600'628},   {"unet3d-a100", 7, 0.636, 0.9, 146'600'628},
      {"cosmoflow-h100", 1, 0.0035, 0.7, 2'828'486}, {"cosmoflow-a100", 1, 0.00551, 0.7, 2'828'486},
  };
  return all;
}

const Accelerator& accelerator_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Accelerator& one : accelerators()) {
    if (one.name == name) return one;
    names.push_back(one.name);
  }
  const std::string near = nearest(name, names);
  throw UsageError(str("--emulate '", name, "' is not an accelerator of MLPerf Storage",
                       near.empty() ? "" : "; did you mean '" + near + "'?",
                       " (known: ", join(names, ", "), ")"));
}

Emulation emulate(const PreparedRun& run, const Accelerator& accelerator, double samples_per_second,
                  double seconds) {
  DTRAIN_CHECK(run.process.world.size == 1, "accelerators are emulated by one process");
  Emulation result{.accelerator = accelerator};
  const int in_memory = most_in_memory(run, accelerator);
  const auto samples =
      static_cast<int>(std::min<size_t>(run.data.splits.train.size(), kMostAccelerators));
  const int limit = std::min(in_memory, samples);
  const double expected =
      samples_per_second / (accelerator.samples_per_second() * accelerator.least_utilization);
  result.fed =
      largest_passing(static_cast<int>(std::clamp(expected, 1.0, 1e6)), limit, [&](int count) {
        result.tried.push_back(run_accelerators(run, accelerator, count, seconds));
        return result.tried.back().utilization >= accelerator.least_utilization;
      });
  if (result.fed == limit) {
    result.limited_by = in_memory <= samples          ? "memory"
                        : samples < kMostAccelerators ? "samples"
                                                      : "threads";
  }
  std::ranges::sort(result.tried, {}, &Utilization::accelerators);
  return result;
}

int largest_passing(int start, int limit, const std::function<bool(int)>& passes) {
  int passed = 0, failed = limit + 1;
  int at = std::clamp(start, 1, std::max(1, limit)), stride = 1;
  while (failed - passed > 1) {
    (passes(at) ? passed : failed) = at;
    if (failed > limit) {  // only successes so far: further up, ever faster
      at = std::min(limit, passed + stride);
      stride *= 2;
    } else if (passed == 0) {
      at = std::max(1, failed - stride);
      stride *= 2;
    } else {
      at = passed + (failed - passed) / 2;
    }
  }
  return passed;
}

}  // namespace dtrain::job

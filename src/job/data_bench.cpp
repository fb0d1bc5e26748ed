#include "job/data_bench.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <limits>
#include <set>

#include "core/clock.h"
#include "data/loader/loader.h"
#include "device/device.h"
#include "dist/object_collectives.h"
#include "os/page_cache.h"
#include "train/loader_options.h"

namespace dtrain::job {
namespace {

using SteadyClock = std::chrono::steady_clock;

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// What one rank loaded, and what that took.
struct Loaded {
  double seconds = 0, cpu_seconds = 0;
  int64_t samples = 0;
  // of these samples, as stored; the reader threads' own count is of what they have read ahead
  int64_t bytes = 0;
  data::LoaderStats loader;

  void add(const Loaded& more) {
    seconds += more.seconds;
    cpu_seconds += more.cpu_seconds;
    samples += more.samples;
    bytes += more.bytes;
    loader += more.loader;
  }
};

// Takes batches from the first one of the epoch on, until `seconds` are over, `most` batches are
// taken or the epoch ends. The first batch is not timed: the threads start, and fill
// the read-ahead.
struct Pass {
  Loaded loaded = {};
  int64_t batches = 0;
  std::vector<int64_t> ids = {};  // samples of the timed batches, in the order of loading
};
Pass take_batches(data::Loader& loader, const data::Store& store, at::Device device, double seconds,
                  int64_t most) {
  loader.seek(0);
  loader.next();
  Pass pass{.batches = 1};
  const double cpu = cpu_seconds();
  const data::LoaderStats stats = loader.stats();
  const auto began = SteadyClock::now();
  do {
    const data::Batch batch = loader.next();
    if (batch.epoch > 0 && pass.loaded.samples > 0) break;  // an epoch may be a single batch
    pass.loaded.samples += batch.samples();
    pass.ids.insert(pass.ids.end(), batch.ids.begin(), batch.ids.end());
    ++pass.batches;
  } while (pass.batches < most && seconds_since(began) < seconds);
  device::works(device);  // waits for copies and kernels
  pass.loaded.seconds = seconds_since(began);
  pass.loaded.cpu_seconds = cpu_seconds() - cpu;
  pass.loaded.loader = loader.stats() - stats;
  for (const int64_t id : pass.ids)
    pass.loaded.bytes += store.input_bytes(id) + store.target_bytes(id);
  return pass;
}

// Only the bytes, one sample after the other: the rate of the file itself.
Loaded read_samples(const data::Store& store, const std::vector<int64_t>& ids, double seconds) {
  std::vector<std::byte> input, target;
  Loaded loaded;
  const double cpu = cpu_seconds();
  const auto began = SteadyClock::now();
  do {
    const int64_t id = ids[static_cast<size_t>(loaded.samples) % ids.size()];
    input.resize(static_cast<size_t>(store.input_bytes(id)));
    target.resize(static_cast<size_t>(store.target_bytes(id)));
    store.read_input(id, input);
    store.read_target(id, target);
    ++loaded.samples;
    loaded.bytes += static_cast<int64_t>(input.size() + target.size());
  } while (seconds_since(began) < seconds);
  loaded.seconds = loaded.loader.read_seconds = seconds_since(began);
  loaded.cpu_seconds = cpu_seconds() - cpu;
  loaded.loader.samples = loaded.samples;
  return loaded;
}

// The repetitions of one row, each with what every rank did.
struct Row {
  int threads = 0;
  bool cold = false;
  std::vector<std::vector<Loaded>> rounds = {};
};

LoadingRate rate_of(const Row& row) {
  LoadingRate rate{.threads = row.threads, .cold = row.cold};
  std::vector<double> rates, cpu;
  Loaded all;  // sum over all ranks and rounds
  double thread_seconds = 0;
  for (const std::vector<Loaded>& ranks : row.rounds) {
    Loaded together;
    double samples_per_second = 0;
    for (const Loaded& one : ranks) {
      if (one.seconds > 0) samples_per_second += static_cast<double>(one.samples) / one.seconds;
      together.add(one);
    }
    thread_seconds += together.seconds * row.threads;
    rates.push_back(samples_per_second);
    cpu.push_back(together.samples > 0
                      ? together.cpu_seconds / static_cast<double>(together.samples)
                      : std::numeric_limits<double>::quiet_NaN());
    all.add(together);
  }
  rate.samples_per_second = spread_of(rates);
  rate.cpu_seconds_per_sample = spread_of(cpu);
  rate.bytes_per_sample =
      static_cast<double>(all.bytes) / static_cast<double>(std::max<int64_t>(1, all.samples));
  const auto samples = static_cast<double>(std::max<int64_t>(1, all.loader.samples));
  rate.read_seconds = all.loader.read_seconds / samples;
  rate.decode_seconds = all.loader.decode_seconds / samples;
  rate.augment_seconds = all.loader.augment_seconds / samples;
  if (thread_seconds > 0)
    rate.full_share = std::clamp(all.loader.full_seconds / thread_seconds, 0.0, 1.0);
  return rate;
}

class Bench {
 public:
  Bench(const PreparedRun& run, const DataBenchOptions& options)
      : run_(run), options_(options), host_(run.process.host) {
    rows_.push_back({.threads = 0});
    for (const int threads : options.threads) {
      rows_.push_back({.threads = threads, .cold = true});
      rows_.push_back({.threads = threads, .cold = false});
    }
  }

  DataBench run() {
    for (int round = 0; round < options_.rounds; ++round) {
      for (size_t row = 1; row < rows_.size(); row += 2) measure(rows_[row], rows_[row + 1]);
      host_.barrier();
      const Loaded read = warm_ids_.empty()
                              ? Loaded{}
                              : read_samples(*run_.data.store, warm_ids_, options_.seconds / 2);
      rows_[0].rounds.push_back(dist::all_gather_object(host_, read));
    }
    DataBench bench{.kept = kept_};
    for (const Row& row : rows_) {
      if (!row.cold || bench.has_cold()) bench.rates.push_back(rate_of(row));
    }
    return bench;
  }

 private:
  void measure(Row& cold, Row& warm) {
    if (options_.cold) drop_file();
    const at::Device device = run_.process.device;
    const data::Store& store = *run_.data.store;
    data::Loader loader(store, run_.data.splits.train, run_.task->samples(),
                        train::loader_options(run_.config, run_.batches, cold.threads, device),
                        {host_.rank(), host_.size()});
    host_.barrier();
    const Pass first =
        take_batches(loader, store, device, options_.seconds, std::numeric_limits<int64_t>::max());
    cold.rounds.push_back(dist::all_gather_object(host_, first.loaded));
    warm_ids_ = first.ids;
    Loaded again;  // exactly the same samples, which are in memory now
    do {
      again.add(take_batches(loader, store, device, options_.seconds - again.seconds, first.batches)
                    .loaded);
    } while (again.samples > 0 && again.seconds < options_.seconds);
    warm.rounds.push_back(dist::all_gather_object(host_, again));
  }

  // One rank of each host asks; then all know the worst answer.
  void drop_file() {
    host_.barrier();
    constexpr double kUnknown = 2;
    double kept = 0;
    if (run_.process.world.local_rank == 0) {
      kept = drop_from_page_cache(run_.data.store->origin().path()).value_or(kUnknown);
    }
    const std::vector<double> all = dist::all_gather_object(host_, kept);
    const double most = std::max(*std::max_element(all.begin(), all.end()), kept_seen_);
    kept_seen_ = most;
    kept_ = most < kUnknown ? std::optional(most) : std::nullopt;
  }

  const PreparedRun& run_;
  const DataBenchOptions& options_;
  dist::Communicator& host_;
  std::vector<Row> rows_;
  std::vector<int64_t> warm_ids_;  // samples of this rank that were loaded last
  double kept_seen_ = 0;
  std::optional<double> kept_;
};

}  // namespace

DataBench bench_data(const PreparedRun& run, const DataBenchOptions& options) {
  // Ranks may have other cores and other flags, but all make the same measurements: in each they
  // wait for all others.
  dist::Communicator& host = run.process.host;
  DataBenchOptions same = options;
  same.threads = dist::broadcast_values(host, options.threads);
  same.rounds = dist::broadcast_object(host, options.rounds);
  return Bench(run, same).run();
}

std::vector<int> threads_to_compare(int cores, int own) {
  std::set<int> threads = {std::max(1, own), std::max(1, cores)};
  for (int count = 1; count < cores; count *= 2) threads.insert(count);
  return {threads.begin(), threads.end()};
}

const LoadingRate& best_rate(const DataBench& bench) {
  const LoadingRate* best = nullptr;
  for (const LoadingRate& rate : bench.rates) {
    if (rate.threads == 0 || rate.cold) continue;
    if (best == nullptr || rate.samples_per_second.median > best->samples_per_second.median)
      best = &rate;
  }
  return *best;
}

}  // namespace dtrain::job

#include "measure/resource_meter.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "os/process_info.h"

namespace dtrain::measure {
namespace {

using os::ThreadTime;

template <typename T>
double growth(const std::optional<T>& now, const std::optional<T>& before) {
  return now && before ? static_cast<double>(*now) - static_cast<double>(*before) : kUnknown;
}

template <typename T>
double known(const std::optional<T>& value) {
  return value ? static_cast<double>(*value) : kUnknown;
}

double above_zero(int value) { return value > 0 ? value : kUnknown; }

// What a thread has used since `before`; all of it where it is new.
ThreadTime since(const ThreadTime& now, const std::vector<ThreadTime>& before) {
  ThreadTime time = now;
  const auto old = std::ranges::find(before, now.id, &ThreadTime::id);
  if (old == before.end()) return time;
  time.cpu_seconds -= old->cpu_seconds;
  time.run_delay_seconds -= old->run_delay_seconds;
  return time;
}

double page_bytes() { return static_cast<double>(::sysconf(_SC_PAGESIZE)); }

bool computes(const std::string& name) {
  return name != kReaderThread && name != kCommThread && name != kServiceThread;
}

CoreMask allowed_cores() {
  CoreMask bits{};
  cpu_set_t set;
  static_assert(CPU_SETSIZE == 64 * bits.size());
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    return bits;  // more cores than a mask has bits
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) bits[core / 64] |= uint64_t{1} << core % 64;
  }
  return bits;
}

// Of the threads that run now: what they used since the last reading, by what they do.
void add_threads(const os::ProcessCounters& now, const os::ProcessCounters& before,
                 Values& values) {
  if (now.by_thread.empty()) return;
  double compute_cpu = 0, run_delay = 0, comm_delay = 0;
  for (const ThreadTime& thread : now.by_thread) {
    const ThreadTime used = since(thread, before.by_thread);
    if (thread.name == kCommThread) comm_delay = std::max(comm_delay, used.run_delay_seconds);
    if (!computes(thread.name)) continue;
    compute_cpu += used.cpu_seconds;
    run_delay = std::max(run_delay, used.run_delay_seconds);
  }
  values.set({{Quantity::kComputeCpu, compute_cpu},
              {Quantity::kRunDelay, run_delay},
              {Quantity::kCommDelay, comm_delay}});
}

// The time of one sample is unknown where there was none.
Values values_of(const data::LoaderStats& read) {
  const auto count = [](int64_t n) { return static_cast<double>(n); };
  const double few = count(read.few_samples), many = count(read.samples - read.few_samples);
  const double many_seconds = read.service_seconds() - read.few_seconds;
  return {{Quantity::kSamples, count(read.samples)},
          {Quantity::kSampleBytes, count(read.bytes)},
          {Quantity::kReadSeconds, read.read_seconds},
          {Quantity::kDecodeSeconds, read.decode_seconds},
          {Quantity::kAugmentSeconds, read.augment_seconds},
          {Quantity::kFewSamples, few},
          {Quantity::kManySamples, many},
          {Quantity::kFewSeconds, read.few_seconds},
          {Quantity::kManySeconds, many_seconds},
          {Quantity::kFewSampleSeconds, few > 0 ? read.few_seconds / few : kUnknown},
          {Quantity::kManySampleSeconds, many > 0 ? many_seconds / many : kUnknown},
          {Quantity::kLoaderWait, read.wait_seconds},
          {Quantity::kLoaderFull, read.full_seconds}};
}

Values values_of(const os::MachineCounters& now, const os::MachineCounters& before) {
  return {
      {Quantity::kThrottled, growth(now.throttled_seconds, before.throttled_seconds)},
      {Quantity::kHostBusy, growth(now.busy_seconds, before.busy_seconds)},
      {Quantity::kHostSteal, growth(now.steal_seconds, before.steal_seconds)},
      {Quantity::kHostIdle, growth(now.idle_seconds, before.idle_seconds)},
      {Quantity::kHostIoWait, growth(now.io_wait_seconds, before.io_wait_seconds)},
      {Quantity::kSwappedIn, page_bytes() * growth(now.swapped_in_pages, before.swapped_in_pages)},
      {Quantity::kReadAgain,
       page_bytes() * growth(now.refaulted_file_pages, before.refaulted_file_pages)}};
}

}  // namespace

ResourceMeter::ResourceMeter(int cores, const std::string& gpu)
    : process_(reader_.process()),
      machine_(reader_.machine()),
      cores_(std::max(1, cores)),
      gpu_(gpu) {}

RankSample ResourceMeter::sample(const data::LoaderStats& loader) {
  const os::ProcessCounters process = reader_.process();
  const os::MachineCounters machine = reader_.machine();
  RankSample sample{.seconds = process.at - process_.at,
                    .values = values_of(loader - loader_),
                    .allowed_cores = allowed_cores()};
  sample.values.set(values_of(machine, machine_));
  add_threads(process, process_, sample.values);
  read_free_memory(process.at);
  read_link(process.at);
  sample.values.set({{Quantity::kCpu, growth(process.cpu_seconds, process_.cpu_seconds)},
                     {Quantity::kDiskBytes, growth(process.read_bytes, process_.read_bytes)},
                     {Quantity::kMajorFaults, growth(process.major_faults, process_.major_faults)},
                     {Quantity::kResident, known(process.resident_bytes)},
                     {Quantity::kCores, cores_},
                     {Quantity::kThreads, known(process.threads)},
                     {Quantity::kFreeMemory, free_memory_},
                     {Quantity::kLinkWidth, above_zero(link_.width.value_or(0))},
                     {Quantity::kCardWidth, above_zero(link_.card_width.value_or(0))},
                     {Quantity::kLinkGeneration, above_zero(link_generation_)},
                     {Quantity::kCardGeneration, above_zero(link_.card_generation.value_or(0))}});
  process_ = process;
  machine_ = machine;
  loader_ = loader;
  return sample;
}

// These change slowly, and the training thread waits for their files, so they are read now
// and then.
namespace {
constexpr double kInterval = 10;
}

void ResourceMeter::read_free_memory(double now) {
  if (free_memory_at_ != 0 && now - free_memory_at_ < kInterval) return;
  free_memory_at_ = now;
  if (const auto bytes = os::read_usable_memory()) free_memory_ = static_cast<double>(*bytes);
}

// While the GPU has work: before, its link may be slower.
void ResourceMeter::read_link(double now) {
  if (gpu_.empty() || (link_at_ != 0 && now - link_at_ < kInterval)) return;
  link_at_ = now;
  link_ = os::read_pcie_link(gpu_);
  link_generation_ = std::max(link_generation_, link_.generation.value_or(0));
}

}  // namespace dtrain::measure

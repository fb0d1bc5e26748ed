#include "train/resource_meter.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/thread_name.h"

namespace dtrain::train {
namespace {

using machine::ThreadTime;

template <typename T>
double growth(const std::optional<T>& now, const std::optional<T>& before) {
  return now && before ? static_cast<double>(*now) - static_cast<double>(*before)
                       : ResourceSample::kUnknown;
}

// What a thread has used since `before`; all of it where it is new.
ThreadTime since(const ThreadTime& now, const std::vector<ThreadTime>& before) {
  ThreadTime time = now;
  const auto old = std::find_if(before.begin(), before.end(),
                                [&](const ThreadTime& t) { return t.id == now.id; });
  if (old == before.end()) return time;
  time.cpu_seconds -= old->cpu_seconds;
  time.run_delay_seconds -= old->run_delay_seconds;
  return time;
}

double page_bytes() { return static_cast<double>(::sysconf(_SC_PAGESIZE)); }

bool computes(const std::string& name) {
  return name != kReaderThread && name != kCommThread && name != kServiceThread;
}

std::array<uint64_t, 16> allowed_cores() {
  std::array<uint64_t, 16> bits{};
  cpu_set_t set;
  static_assert(CPU_SETSIZE == 64 * bits.size());
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    return bits;  // more cores than a mask has bits
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) bits[core / 64] |= uint64_t{1} << core % 64;
  }
  return bits;
}

}  // namespace

ResourceMeter::ResourceMeter(int cores, const std::string& gpu)
    : process_(reader_.process()),
      machine_(reader_.machine()),
      cores_(std::max(1, cores)),
      gpu_(gpu) {}

ResourceSample ResourceMeter::sample(const data::LoaderStats& loader) {
  const machine::ProcessCounters process = reader_.process();
  const machine::MachineCounters machine = reader_.machine();
  const data::LoaderStats read = loader - loader_;
  ResourceSample sample{
      .seconds = process.at - process_.at,
      .loader = read,
      .cpu = growth(process.cpu_seconds, process_.cpu_seconds),
      .throttled = growth(machine.throttled_seconds, machine_.throttled_seconds),
      .host_busy = growth(machine.busy_seconds, machine_.busy_seconds),
      .host_steal = growth(machine.steal_seconds, machine_.steal_seconds),
      .host_idle = growth(machine.idle_seconds, machine_.idle_seconds),
      .host_io_wait = growth(machine.io_wait_seconds, machine_.io_wait_seconds),
      .swapped_in = page_bytes() * growth(machine.swapped_in_pages, machine_.swapped_in_pages),
      .read_again =
          page_bytes() * growth(machine.refaulted_file_pages, machine_.refaulted_file_pages),
      .disk_bytes = growth(process.read_bytes, process_.read_bytes),
      .major_faults = growth(process.major_faults, process_.major_faults)};
  if (process.resident_bytes) sample.resident_bytes = static_cast<double>(*process.resident_bytes);
  sample.cores = cores_;
  sample.allowed_cores = allowed_cores();
  sample.free_memory = free_memory(process.at);
  read_link(process.at);
  sample.link_width = link_.width.value_or(0);
  sample.card_width = link_.card_width.value_or(0);
  sample.link_generation = link_generation_;
  sample.card_generation = link_.card_generation.value_or(0);
  if (process.threads) sample.threads = *process.threads;
  if (!process.by_thread.empty()) sample.compute_cpu = sample.run_delay = sample.comm_delay = 0;
  for (const ThreadTime& thread : process.by_thread) {
    const ThreadTime used = since(thread, process_.by_thread);
    if (thread.name == kCommThread)
      sample.comm_delay = std::max(sample.comm_delay, used.run_delay_seconds);
    if (!computes(thread.name)) continue;
    sample.compute_cpu += used.cpu_seconds;
    sample.run_delay = std::max(sample.run_delay, used.run_delay_seconds);
  }
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

double ResourceMeter::free_memory(double now) {
  if (free_memory_at_ != 0 && now - free_memory_at_ < kInterval) return free_memory_;
  free_memory_at_ = now;
  if (const auto bytes = machine::read_usable_memory()) free_memory_ = static_cast<double>(*bytes);
  return free_memory_;
}

// While the GPU has work: before, its link may be slower.
void ResourceMeter::read_link(double now) {
  if (gpu_.empty() || (link_at_ != 0 && now - link_at_ < kInterval)) return;
  link_at_ = now;
  link_ = machine::read_pcie_link(gpu_);
  link_generation_ = std::max(link_generation_, link_.generation.value_or(0));
}

}  // namespace dtrain::train

#include "train/resource_meter.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/thread_name.h"

namespace dtrain::train {
namespace {

using machine::ThreadTime;

template <typename T>
double growth(const std::optional<T>& now, const std::optional<T>& before) {
  return now && before ? static_cast<double>(*now) - static_cast<double>(*before) : ResourceSample::kUnknown;
}

// What a thread has used since `before`; all of it where it is new.
ThreadTime since(const ThreadTime& now, const std::vector<ThreadTime>& before) {
  ThreadTime time = now;
  const auto old = std::find_if(before.begin(), before.end(), [&](const ThreadTime& t) { return t.id == now.id; });
  if (old == before.end()) return time;
  time.cpu_seconds -= old->cpu_seconds;
  time.run_delay_seconds -= old->run_delay_seconds;
  return time;
}

bool computes(const std::string& name) {
  return name != kReaderThread && name != kCommThread && name != kServiceThread;
}

}  // namespace

ResourceMeter::ResourceMeter(int cores)
    : process_(reader_.process()), machine_(reader_.machine()), cores_(std::max(1, cores)) {}

ResourceSample ResourceMeter::sample(const data::LoaderStats& loader) {
  const machine::ProcessCounters process = reader_.process();
  const machine::MachineCounters machine = reader_.machine();
  const data::LoaderStats read = loader - loader_;
  ResourceSample sample{.seconds = process.at - process_.at,
                        .samples = static_cast<double>(read.samples),
                        .bytes = static_cast<double>(read.bytes),
                        .read = read.read_seconds,
                        .decode = read.decode_seconds,
                        .augment = read.augment_seconds,
                        .cpu = growth(process.cpu_seconds, process_.cpu_seconds),
                        // The kernel adds up what it withheld from each core.
                        .throttled = growth(machine.throttled_seconds, machine_.throttled_seconds) / cores_,
                        .host_busy = growth(machine.busy_seconds, machine_.busy_seconds),
                        .host_steal = growth(machine.steal_seconds, machine_.steal_seconds),
                        .major_faults = growth(process.major_faults, process_.major_faults)};
  if (process.resident_bytes) sample.resident_bytes = static_cast<double>(*process.resident_bytes);
  sample.cores = cores_;
  if (process.threads) sample.threads = *process.threads;
  if (!process.by_thread.empty()) sample.reader_cpu = sample.compute_cpu = sample.run_delay = 0;
  for (const ThreadTime& thread : process.by_thread) {
    const ThreadTime used = since(thread, process_.by_thread);
    if (thread.name == kReaderThread) sample.reader_cpu += used.cpu_seconds;
    if (!computes(thread.name)) continue;
    sample.compute_cpu += used.cpu_seconds;
    sample.run_delay = std::max(sample.run_delay, used.run_delay_seconds);
  }
  process_ = process;
  machine_ = machine;
  loader_ = loader;
  return sample;
}

}  // namespace dtrain::train

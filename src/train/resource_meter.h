#pragma once

// What a rank and its host did between two calls of sample(): loader, cores and memory, as one
// value that travels to rank 0. NaN: this kernel does not tell. Thread-safety: the training thread
// alone, whose process it measures.

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "data/loader/loader_stats.h"
#include "machine/counters.h"
#include "machine/facts.h"
#include "monitoring/gpu_window.h"

namespace dtrain::train {

// Since the run began.
struct RunTotals {
  double allocator_retries = 0;  // of LibTorch's allocator on the GPU
  double device_peak = std::numeric_limits<double>::quiet_NaN();  // bytes of the device
  double skipped_steps = 0;                                       // of float16 training
  double loss_scale = std::numeric_limits<double>::quiet_NaN();   // now
};

struct ResourceSample {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  double seconds = 0;  // on the wall clock
  double steps = 0;    // of the optimizer that ended meanwhile; set by the trainer
  data::LoaderStats loader = {};
  double cpu = kUnknown;          // seconds of all threads
  double compute_cpu = kUnknown;  // of the threads that compute
  double run_delay = kUnknown;    // the computing thread that waited longest for a core
  double comm_delay = kUnknown;   // the same of the threads that communicate
  double throttled =
      kUnknown;  // by the limit of the control group, summed over the cores that the group ran on
  double host_busy = kUnknown, host_steal = kUnknown;  // seconds of all cores of the host together
  double host_idle = kUnknown, host_io_wait = kUnknown;
  double swapped_in = kUnknown, read_again = kUnknown;  // bytes, of the host: diagnose::HostUse
  double disk_bytes = kUnknown;                         // that this process read from disks
  double major_faults = kUnknown;
  double free_memory = kUnknown;  // bytes that this job can still take, as of some seconds ago
  std::array<uint64_t, 16> allowed_cores = {};  // one bit each; none: unknown
  double resident_bytes = kUnknown;             // now
  double device_bytes = kUnknown;               // of the device, now; on the CPU the resident set
  double cores = kUnknown, threads = kUnknown;  // that it may use; that it has now
  double host_cores = kUnknown;
  int loader_threads = 1, compute_threads = 1;  // set by the trainer
  double queue = kUnknown;                      // mean share of the read-ahead that was ready
  monitoring::GpuUse gpu = {};
  int link_width = 0, card_width = 0;            // of the GPU's PCIe link, in lanes; 0: unknown
  int link_generation = 0, card_generation = 0;  // the highest so far: an idle GPU lowers it
  double gpu_memory = kUnknown;                  // bytes in all; set by the trainer
  int gpu_capability = 0;  // device::Properties, 0 on the CPU; set by the trainer
  RunTotals so_far = {};
};

class ResourceMeter {
 public:
  // `cores`: that this rank may use. `gpu`: the PCI bus id of its GPU, "" on the CPU.
  explicit ResourceMeter(int cores, const std::string& gpu = "");

  // Since the last call, or since the meter was made. `loader`: Loader::stats() now.
  ResourceSample sample(const data::LoaderStats& loader);

 private:
  double free_memory(double now);
  void read_link(double now);

  machine::CounterReader reader_;
  machine::ProcessCounters process_;
  machine::MachineCounters machine_;
  data::LoaderStats loader_;
  int cores_;
  std::string gpu_;
  machine::PcieLink link_ = {};
  int link_generation_ = 0;
  double link_at_ = 0;  // seconds of the steady clock
  double free_memory_ = ResourceSample::kUnknown,
         free_memory_at_ = 0;  // seconds of the steady clock
};

}  // namespace dtrain::train

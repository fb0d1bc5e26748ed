#pragma once

// What a run has measured, as its diagnosis takes it: the steps of every rank, what their loaders,
// cores and networks did meanwhile, and the settings that could be changed. Plain values without a
// device, a clock or a file, so that a test can make any run, and a run that was recorded can be
// judged again. Times are in seconds, sizes in bytes. NaN: it was not measured.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "diagnose/what_if.h"

namespace dtrain::diagnose {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Means per optimizer step of one rank, over the same steps for all ranks.
struct LoaderUse {
  int threads = 1;
  double bytes = 0;
  double read = 0, decode = 0, augment = 0;  // summed over the reader threads
  // Of one sample, all stages together: of the batches that few_readers() load alone, and of the
  // others. If it takes longer with more of them, they are in each other's way.
  double few_service = kUnknown, many_service = kUnknown;

  double service() const { return read + decode + augment; }
};

// Half of the reader threads, as the loader counts them (data/loader/read_ahead.h). Requires: at
// least two.
constexpr int few_readers(int threads) { return threads / 2; }

struct CoreUse {
  double cores = kUnknown;       // that the rank may use now; of cores that ranks share, its part
  int compute_threads = 1;       // of the network's operators
  double cpu = kUnknown;         // of all threads of the rank
  double side_cpu = kUnknown;    // of them those that do not compute: readers, communication
  double run_delay = kUnknown;   // the thread of the network that waited longest for a core, though
                                 // it could have run
  double comm_delay = kUnknown;  // the same of the threads that communicate
  double throttled =
      kUnknown;  // stopped by the limit of the control group, of each core that the group ran on
};

// Of the host that a rank runs on, per step of the run.
struct HostUse {
  std::string name;
  double cores = kUnknown;        // of the machine
  double job_cores = kUnknown;    // those that any rank of this job may use now
  double others_cpu = kUnknown;   // of processes that are not ranks of this job
  double idle = kUnknown;         // of all cores together, nothing to run
  double io_wait = kUnknown;      // of all cores together, nothing to run but what waits for a disk
  double steal = kUnknown;        // that the hypervisor gave to others, summed over cores
  double swapped_in = kUnknown;   // bytes
  double read_again = kUnknown;   // bytes of files that the page cache had dropped shortly before
  double free_memory = kUnknown;  // bytes that this job can still take, now
};

// Of the GPU of a rank. Clocks, power and throttling are means over NVML's readings.
struct GpuUse {
  double busy = kUnknown;    // share of time with a kernel running
  double launch = kUnknown;  // seconds in which the host launched forward and backward
  double clock = kUnknown,
         full_clock =
             kUnknown;  // hertz; of the readings in which nothing held it back, or the card's
  bool full_clock_seen =
      true;  // false: something always held it back, so it is the highest that the card allows
  double power_limited = kUnknown, heat_limited = kUnknown;  // share of time with a reduced clock
  double power_limit = kUnknown, default_power_limit = kUnknown,
         temperature = kUnknown;                           // watts, degrees Celsius
  double memory_peak = kUnknown, memory_total = kUnknown;  // bytes
  double allocator_retries = kUnknown;                     // per step
  int link_width = 0, card_width = 0;                      // PCIe lanes; 0: unknown
  int link_generation = 0, card_generation = 0;            // of PCIe; 0: unknown
  bool tensor_cores = false, bf16 = false;                 // that it has
};

// The memory of a rank after so many steps.
struct MemoryPoint {
  double steps = 0, bytes = 0;
};

// Of float16 training.
struct LossScale {
  double now = kUnknown;
  double skipped = 0;  // share of the steps that changed nothing
};

struct RankEvidence {
  Steps steps;  // the newest ones, after warm-up
  LoaderUse loader;
  CoreUse cores;
  int host = 0;  // index into RunEvidence::hosts
  GpuUse gpu;
  std::vector<MemoryPoint> memory;  // resident, in order
  double disk_bytes = kUnknown;     // read from disks, per step
  double major_faults = kUnknown;   // pages of memory that had to be read from a disk, per step
};

// The buckets that a step sends for a value of dist.bucket_mb: their bytes, in the order in which
// they are sent.
struct BucketPlan {
  double mebibytes = 0;
  std::vector<double> bytes = {};
};

// What one all-reduce of the gradients costs when nobody is late (dist/cost_fit.h), and what a
// step sends.
struct NetworkUse {
  double latency = kUnknown, seconds_per_byte = kUnknown;
  double messages = 0, bytes = 0;       // per step: buckets, and the sums of loss and weight
  BucketPlan plan = {};                 // the one that runs
  std::vector<BucketPlan> others = {};  // that could run instead

  bool known() const { return latency >= 0 && seconds_per_byte >= 0; }
};

struct Settings {
  int64_t batch_size = 1, accumulate = 1;
  int64_t global_batch =
      0;  // train.global_batch, from which accumulate follows; 0: it was not given
  bool gpu = false;
  std::string precision = "fp32";
  bool narrow_wire = false;     // dist.wire is not fp32
  bool images = true;           // false: samples are rows
  bool can_checkpoint = false;  // model.checkpointing could be turned on
  bool augments_hue = false;
  bool verifies = false;  // data.verify true
  double steps_per_epoch = 1;
  bool saves_by_steps = false;  // checkpoint.every counts steps or epochs
  bool keeps_best = true;       // checkpoint.keep_best
  double evaluations = 0;       // per step, as planned
  double checkpoints = 0;       // per step, as planned; where that is a time, as often as any came
  int64_t length_window = 0;    // data.length_window
  int64_t length_classes = 0;   // data.length_classes
  double epochs = 0;  // that were begun: in the first one every sample is read for the first time
  double steps_left = kUnknown;  // until the run ends
};

// What follows some steps alone: evaluations, checkpoints. Of the whole process up to now, so also
// those after steps that are no longer kept.
struct RareEvents {
  int64_t count = 0;
  double seconds = 0;  // of all of them

  void add(double of_one) {
    ++count;
    seconds += of_one;
  }
  double each() const { return count > 0 ? seconds / static_cast<double>(count) : kUnknown; }
};

struct RunEvidence {
  std::vector<RankEvidence> ranks;
  std::vector<HostUse> hosts;
  NetworkUse network;
  LossScale loss_scale;
  Settings settings;
  double cached_step =
      kUnknown;  // seconds of a step whose batches were in memory: as if loading were free
  double ended_steps = 0;  // of this process, warm-up too
  RareEvents evaluations;
  RareEvents saves,
      saves_of_best;  // of checkpoints, but for that at the end of the run, which stays in any case

  double total_steps() const {
    return settings.epochs * settings.steps_per_epoch + settings.steps_left;
  }  // of the run
  std::vector<Steps> steps() const {
    std::vector<Steps> all;
    for (const RankEvidence& rank : ranks) all.push_back(rank.steps);
    return all;
  }
};

}  // namespace dtrain::diagnose

#pragma once

// What a run has measured, as its diagnosis takes it: the steps of every rank, what their loaders, cores and networks
// did meanwhile, and the settings that could be changed. Plain values without a device, a clock or a file, so that a
// test can make any run, and a run that was recorded can be judged again. Times are in seconds, sizes in bytes. NaN: it
// was not measured.

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
  double samples = 0, bytes = 0;
  double read = 0, decode = 0, augment = 0;  // summed over the reader threads
  double cpu = kUnknown;                     // of the reader threads

  double service() const { return read + decode + augment; }
};

struct CoreUse {
  double cores = kUnknown;     // that the rank may use; shared with `ranks_on_host` if there are fewer cores than ranks
  int compute_threads = 1;     // of the network's operators
  double cpu = kUnknown;       // of all threads of the rank
  double side_cpu = kUnknown;  // of them those that do not compute: readers, communication
  double run_delay = kUnknown;  // the thread of the network that waited longest for a core, though it could have run
  double throttled = kUnknown;  // stopped by the limit of the control group
};

// Of the host that a rank runs on, per step of the run.
struct HostUse {
  std::string name;
  double cores = kUnknown;
  double others_cpu = kUnknown;  // of processes that are not ranks of this job
  double steal = kUnknown;       // that the hypervisor gave to others, summed over cores
  double swap_pages = kUnknown, major_faults = kUnknown;
};

struct RankEvidence {
  Steps steps;  // the newest ones, after warm-up
  LoaderUse loader;
  CoreUse cores;
  int host = 0;                     // index into RunEvidence::hosts
  double memory = kUnknown;         // resident now
  double memory_growth = kUnknown;  // bytes per step, by a straight line through the samples
};

// What one all-reduce of the gradients costs when nobody is late (dist/cost_fit.h).
struct NetworkUse {
  double latency = kUnknown, seconds_per_byte = kUnknown;
  double messages = 0, bytes = 0;  // per step: buckets
};

struct Settings {
  int64_t batch_size = 1, accumulate = 1;
  int64_t workers = 1;  // reader threads per rank
  int64_t threads = 1;  // of the network, per rank
  bool gpu = false;
  bool images = true;  // false: samples are rows
  bool augments_hue = false;
  double steps_per_epoch = 1;
  double saves = 0;        // checkpoints per step
  double evaluations = 0;  // per step
  double padding_waste = kUnknown;
};

struct RunEvidence {
  std::vector<RankEvidence> ranks;
  std::vector<HostUse> hosts;
  NetworkUse network;
  Settings settings;

  std::vector<Steps> steps() const {
    std::vector<Steps> all;
    for (const RankEvidence& rank : ranks) all.push_back(rank.steps);
    return all;
  }
};

}  // namespace dtrain::diagnose

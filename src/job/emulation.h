#pragma once

// The emulated accelerators of MLPerf Storage: an accelerator takes a batch, sleeps for as long as
// the real one computes on it, and takes the next one. Its utilization is the share of the time in
// which it sleeps, and the question is how many of them a machine feeds before that falls below a
// limit. No accelerator is needed to find out.
//
// The table of compute times is that of github.com/mlcommons/storage (configs/dlio/workload/*.yaml
// at caa90c9c); the utilization is that of Submission_guidelines.md there, but not only the first
// step is left out of it: all steps are that the read-ahead may have served.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "job/training_job.h"

namespace dtrain::job {

struct Accelerator {
  std::string name;                // "resnet50-h100": a network on a GPU
  int64_t batch_size = 0;          // samples of a step
  double compute_seconds = 0;      // time for one step
  double least_utilization = 0.9;  // that counts as fed
  int64_t sample_bytes = 0;        // stored size of a sample in MLPerf Storage

  double samples_per_second() const { return static_cast<double>(batch_size) / compute_seconds; }
};

const std::vector<Accelerator>& accelerators();
const Accelerator& accelerator_named(const std::string& name);  // UsageError that lists the names

struct Utilization {
  int accelerators = 0;
  double utilization = 0;         // 0 to 1, the mean of them
  double samples_per_second = 0;  // all accelerators together
};

struct Emulation {
  Accelerator accelerator;
  int fed = 0;  // the most that were fed
  // What more of them would lack: "memory", "samples", "threads"; "": the loader is slow
  std::string limited_by = {};
  std::vector<Utilization> tried = {};  // sorted by number of accelerators
};

// At most kMostAccelerators are tried, and no more than have a sample each and fit with their
// batches in a quarter of this machine's memory.
inline constexpr int kMostAccelerators = 256;

// Every accelerator has a loader of its own on a share of the training samples, with as many reader
// threads as a rank would have if each accelerator were a rank here. `samples_per_second`: about
// what the loader gives, where the search begins; `seconds`: about how long each number of
// accelerators is tried. Requires: one rank.
Emulation emulate(const PreparedRun&, const Accelerator&, double samples_per_second,
                  double seconds);

// The largest number in [0, limit] that passes, if all smaller ones pass too; 0 always does. Begins
// at `start`. Pure.
int largest_passing(int start, int limit, const std::function<bool(int)>& passes);

}  // namespace dtrain::job

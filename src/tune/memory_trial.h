#pragma once

// The memory of one batch size, measured in a process of its own: this program again, alone, on the
// device of the rank, with the same configuration. Where memory runs out, that process ends and not
// the rank, and what it used is what a run would use, with nothing left over from earlier trials.
// Where samples have different lengths, the longest are taken, whose batches need most.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "train/measured_steps.h"

namespace dtrain::tune {

// The first argument of `dtrain tune` in such a process. Not for users.
inline constexpr const char* kMemoryTrial = "--memory-trial";

struct MemoryTrialOptions {
  int64_t batch_size = 1;
  int gpu = -1;                    // number of the rank's GPU for this process; -1: the CPU
  int threads = 1;                 // CPU threads of the rank
  int64_t kill_bytes = INT64_MAX;  // use of the host's memory at which the trial is ended
  double seconds = 600;            // after which it is ended
};

struct MemoryTrial {
  bool ended = false;             // it was stopped, or took too long: nothing is known
  std::string out_of_memory;      // why it did not fit; "": it did
  int64_t process_bytes = 0;      // the most that the process used of its device
  train::StepMemory memory = {};  // what a step needs, by kind
};

// Tries the first training phase of `config`, whose data.file is given. `stop` is that of
// run_child(). Error with the message of the process if it failed for another reason.
MemoryTrial try_memory(const config::Config& config, const MemoryTrialOptions&,
                       const std::function<bool()>& stop);

// The body of that process. `arguments`: kMemoryTrial, the parent's process id, the batch size; the
// configuration comes from the standard input, the result goes to the standard output. Returns the
// exit code.
int run_memory_trial(const std::vector<std::string>& arguments);

}  // namespace dtrain::tune

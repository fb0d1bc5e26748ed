#pragma once

// Counts what a process asks of its GPUs, by step and phase of the training, and writes it when the
// process ends. Steps and phases are the ranges that dtrain pushes for profilers
// (device/profiler_range.h), and bench/steps/eager_step.py by the same names: a step ends with its
// phase "optimizer". What a thread of autograd or of NCCL does belongs to the phase in which the
// training thread is. The names of ranges must live until the process ends.
//
// The file FAKE_GPU_REPORT/PID.tsv has one line per step, phase, operation and name, with their
// count, and with the number of the step's launch that came first or next to the first. Step 0 is
// what came before the first one, and phase "-" what was in none.
//
// Thread-safety: all functions may be called from any thread.

#include <cstdint>
#include <string>

namespace fake_gpu {

enum class Operation {
  kLaunch,  // kernels; an operation of cuBLAS, cuDNN or NCCL is one
  kCopy,    // memory; the name says from where to where
  kMemset,
  kWait,        // the host waits for the device
  kQuery,       // the host asks whether an event has been reached
  kEvent,       // events created, recorded, and waited for by streams
  kAllocation,  // memory taken from the driver and given back
  kContext,     // a device that this process uses
  kCaptured,    // recorded in a graph, of which each launch is one launch
};

// `name` must live until the process ends.
void count(Operation, const char* name);

std::string readable(const char* name);  // of a kernel, as C++ writes it

// Where a launch is.
struct Position {
  int64_t step = 0;        // that runs, or ran last
  int64_t launches = 0;    // in this step, with this one
  int64_t of_process = 0;  // in all steps and before them
};
Position note_launch();  // one more launch

}  // namespace fake_gpu

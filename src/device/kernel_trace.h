#pragma once

// The kernels and copies that a GPU runs, one by one, by LibTorch's own profiler (Kineto, on
// CUPTI). It keeps them in memory until the end, so it is for a few steps. While one lives, no
// TensorMemory may be made on the same thread: LibTorch has one place for both.
//
// Thread-safety: made and finished on the thread that issues the work, one at a time.

#include <torch/types.h>

#include <vector>

#include "trace/recorder.h"

namespace dtrain::device {

// Whether this build can see the kernels of this device. It may still see none: CUPTI needs a
// permission on some hosts.
bool can_trace_kernels(at::Device);

class KernelTrace {
 public:
  explicit KernelTrace(at::Device);  // requires can_trace_kernels()
  ~KernelTrace();                    // ends it, without a result
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;

  // Waits for the device. By stream: "cuda:0 stream 7". Names are kept by the recorder. Call
  // it once.
  std::vector<trace::TrackEvents> finish(trace::Recorder&);

 private:
  const at::Device device_;
  bool runs_ = true;
};

}  // namespace dtrain::device

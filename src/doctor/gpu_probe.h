#pragma once

// What doctor asks of the GPUs of a host. The interface has CUDA and NVML behind it in the program,
// and made answers in tests. Thread-safety: one thread.

#include <memory>
#include <string>

#include "config/config.h"
#include "doctor/rank_facts.h"

namespace dtrain::doctor {

class GpuProbe {
 public:
  virtual ~GpuProbe() = default;
  virtual int count() = 0;  // usable GPUs of this process
  virtual std::string
  problem() = 0;  // why a GPU of this machine cannot be used; "": there is none, or all can
  // Which of them a rank would use; -1: the CPU. DeviceError as device::choose().
  virtual int choose(const config::Device&, int local_rank) = 0;
  // Tries copies, which takes a part of a second for each GPU
  virtual GpuFacts examine(int index) = 0;
};

std::unique_ptr<GpuProbe> make_gpu_probe();

}  // namespace dtrain::doctor

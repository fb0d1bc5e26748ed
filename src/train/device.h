#pragma once

// The device of a rank, and what people and metrics want to know of it.

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "config/config.h"

namespace dtrain::train {

struct DeviceInfo {
  std::string name;          // "NVIDIA GeForce RTX 3090", "CPU"
  std::string pci_bus_id;    // "0000:65:00.0"; "" on the CPU
  int64_t memory_bytes = 0;  // of the device; of the machine on the CPU
  int capability = 0;        // 86 for 8.6; 0 on the CPU
};

// auto: the GPU `local_rank % GPUs` if there is one, else the CPU. DeviceError when a GPU is asked for and there is
// none.
at::Device choose_device(const config::Device&, int local_rank);
void use_device(at::Device);  // makes it the current one of the calling thread
DeviceInfo device_info(at::Device);
int64_t memory_used(at::Device);  // bytes: allocated on the GPU, resident on the CPU
int64_t memory_peak(at::Device);
int gpu_count();
std::string cuda_runtime_version();  // "13.0"; "none" without CUDA

}  // namespace dtrain::train

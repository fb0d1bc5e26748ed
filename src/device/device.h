#pragma once

// The device that a rank computes on: which one it is, what it is, how much of its memory is in
// use. All that dtrain asks of the CUDA runtime about a GPU is asked here; a build without CUDA
// answers the same questions for a machine without GPUs (device_none.cpp). What a GPU measures
// while it runs comes from NVML, see monitoring/gpu_reader.h.
//
// Thread-safety: all functions may be called from any thread; use() acts on the calling thread.

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "config/config.h"

namespace dtrain::device {

struct Properties {
  std::string name = {};        // "NVIDIA GeForce RTX 3090"; "CPU"
  std::string pci_bus_id = {};  // "0000:65:00.0", unique within a machine; "" on the CPU
  std::string uuid = {};        // 32 hexadecimal digits, unique everywhere; "" on the CPU
  int64_t memory_bytes = 0;     // memory of the device; on the CPU, memory of the machine
  int capability = 0;           // 10 × major + minor: 86 for compute capability 8.6; 0 on the CPU
};

int gpu_count();  // usable GPUs of this process; 0 in a build without CUDA

// What is known of NVIDIA's driver on a machine.
struct Driver {
  bool device_file = false;  // has_gpu_file("/dev"): there is a GPU
  // the newest CUDA that it supports, 12080 for 12.8; 0: its library libcuda.so.1 is missing
  int cuda = 0;
  std::string version = {};  // "570.133.07"; "" if it does not say
};
Driver find_driver();

// Whether the library of NVIDIA's driver (libcuda.so.1) is on this machine. Unlike find_driver() it
// does not start CUDA, which takes a while, opens the GPUs, and forbids a fork. False in a build
// without CUDA.
bool has_driver_library();

// Loads LibTorch's operators for GPUs, libtorch_cuda.so. They are not linked, because they are a
// third of the time that a process takes to start. Where there may be a GPU, call it first in
// main(): LibTorch looks for them once, when it is first asked about a GPU. Does nothing the second
// time, and in a build without CUDA. DeviceError if loading fails.
//
// They and CUDA's libraries take about 110 KiB of thread-local storage out of every thread's stack,
// 92 KiB for libcublasLt alone: a library that asks for stacks of 100 KiB cannot start a thread.
void load_gpu_operators();

// Whether a folder, /dev, has the file of a GPU: nvidia0, nvidia3 (a container may have any), ...;
// dxg under Windows.
bool has_gpu_file(const std::filesystem::path& folder);

// Why the GPU of a machine on which gpu_count() is 0 cannot be used; "" if there is no sign of a
// GPU. `needed`: the version of CUDA that dtrain is built for. Pure.
std::string unusable_gpu(const Driver&, int needed);
std::string unusable_gpu();  // the same for this machine; "" in a build without CUDA

// DeviceError if dtrain has no code for a GPU as old as this one.
void check_capability(const Properties&);

// The device of the rank that is number `local_rank` of its machine. device.type auto: GPU
// `local_rank` modulo the number of GPUs, or the CPU without a usable GPU. DeviceError if the type
// is cuda and there is no usable GPU, and if the GPU is too old.
at::Device choose(const config::Device&, int local_rank);

// Makes it the current device of the calling thread. Every thread that touches CUDA calls it first,
// also one that only destroys an event: that sets the thread's device to the event's and back, and
// on a thread without a device back to GPU 0, where it opens a context of hundreds of megabytes.
void use(at::Device);

// Waits for what the device does. False: the GPU has failed, and nothing works on it in this
// process. at::kCUDA without a number is the current GPU of the calling thread. True on the CPU and
// without a GPU. Never throws.
bool works(at::Device) noexcept;

// Keeps the current stream of the device busy for about so long, and returns at once: what is
// issued meanwhile then runs without the gaps of a host that is late. Does nothing on the CPU.
void hold(at::Device, double seconds);

// DeviceError if there is no such device. On a GPU this asks the driver, which takes milliseconds:
// not for each step.
Properties properties(at::Device);
Properties gpu_properties(int index);  // the part that CUDA answers: properties() of GPU `index`

// The memory of a device that this process uses, in bytes.
struct MemoryUse {
  int64_t allocated = 0;  // used by tensors; on the CPU the resident set
  int64_t reserved = 0;   // held by LibTorch for tensors now and later; on the CPU the resident set
  int64_t peak = 0;       // the most that was reserved so far
  int64_t retries = 0;    // allocations for which LibTorch first had to give back its unused memory
  int64_t failures = 0;  // allocations that failed even so, also those that LibTorch recovered from
};
MemoryUse memory_use(at::Device);

// Gives memory that LibTorch keeps for later tensors back to the GPU, for other processes. Does
// nothing on the CPU.
void give_back_memory(at::Device);
// The peak of memory_use() begins again with what is reserved now. Does nothing on the CPU, where
// Linux counts it.
void forget_peak(at::Device);

// Sets LibTorch's switches for the whole process; call it before the first operator runs. With
// `deterministic` every operator gives the same bits each time (LibTorch throws an error that names
// an operator without such a form), and cudnn_benchmark is ignored. Otherwise `cudnn_benchmark`
// lets cuDNN measure its algorithms and take the fastest.
void set_determinism(bool deterministic, bool cudnn_benchmark);

std::string cuda_runtime_version();  // "13.0"; "none" in a build without CUDA

}  // namespace dtrain::device

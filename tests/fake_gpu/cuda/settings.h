#pragma once

// What a test asks of the fake GPUs, from environment variables. They are read once, at the first
// call, and belong to the process: ranks of a job have the same.
//
//   FAKE_GPU_COUNT=1          GPUs of the machine; CUDA_VISIBLE_DEVICES chooses among them
//   FAKE_GPU_MEMORY_MIB=24576 memory of each
//   FAKE_GPU_CAPABILITY=86    10 × major + minor
//   FAKE_GPU_DRIVER=13000     the newest CUDA that the driver supports
//   FAKE_GPU_FAIL=STEP:LAUNCH the GPU fails at this launch of this step, from 1:1; 0:LAUNCH, at
//                             this launch of the process
//   FAKE_GPU_FAIL_RANK=0      only in this rank (of OMPI_COMM_WORLD_RANK)
//   FAKE_GPU_SPOIL=NAME       graphs leave out the work whose name has this in it, so that their
//                             numbers are wrong
//   FAKE_GPU_SPOIL_RANK=0     only in this rank
//   FAKE_NCCL_FAIL=K          NCCL fails at the K-th operation of a communicator
//   FAKE_NCCL_VERSION=22809   what NCCL says of itself; not given: the version of its header
//   FAKE_GPU_REPORT=FOLDER    each process writes what it counted to FOLDER/PID.tsv (counts.h)
//   FAKE_GPU_NUMBERS=FILE     a library that computes LibTorch's operators (numbers/): copies and
//                             NCCL move data too; other kernels end the process
//   FAKE_GPU_ORDER=NUMBER     work is done after its submission, in an order of schedule.h
//   FAKE_GPU_WAITS=FILE       each place where the program waits is written to it (waits.h)
//   FAKE_GPU_WITHOUT=KEY      nothing waits at the place with this key; a query there says yes

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fake_gpu {

struct Settings {
  std::vector<int> gpus = {};  // physical numbers of the visible ones
  size_t memory = 0;           // bytes
  int capability = 0;
  int driver = 0;
  int64_t fail_step = -1;  // -1: never
  int64_t fail_launch = 0;
  std::string spoil = {};  // "": nothing
  int64_t nccl_fail = 0;   // 0: never
  int nccl_version = 0;    // 0: that of the header
  std::string report = {};
  std::string numbers = {};
  int64_t order = -1;  // -1: work is done when it is submitted
  std::string waits = {};
  std::string without = {};
};

const Settings& settings();

}  // namespace fake_gpu

#pragma once

// The GPU's blocks of batch norm in memory of the CPU, one thread after the other: a Runner for
// tests on machines without a GPU.

#include <vector>

#include "kernels/batch_norm_blocks.h"
#include "kernels/batch_norm_blocks_body.h"

namespace dtrain::testing {

template <typename Kernel>
void run_blocks(const Kernel& kernel) {
  namespace blocks = kernels::batch_norm::blocks;
  std::vector<typename Kernel::Memory> memory(Kernel::kMemory);
  for (int64_t block = 0; block < kernel.blocks(); ++block) {
    for (int phase = 0; phase < kernel.phases(); ++phase) {
      for (int thread = 0; thread < blocks::kThreads; ++thread)
        kernel.run(phase, block, thread, memory.data());
    }
  }
}

inline kernels::LaunchResult run_on_cpu(const kernels::batch_norm::blocks::TensorJob& job, void*) {
  namespace blocks = kernels::batch_norm::blocks;
  const auto use = [](const auto& kernel) { run_blocks(kernel); };
  if (job.type == blocks::Type::kFloat) blocks::with_kernel<float>(job, use);
  if (job.type == blocks::Type::kHalf) blocks::with_kernel<c10::Half>(job, use);
  if (job.type == blocks::Type::kBFloat16) blocks::with_kernel<c10::BFloat16>(job, use);
  if (job.type == blocks::Type::kDouble) blocks::with_kernel<double>(job, use);
  return 0;
}

inline kernels::LaunchResult run_on_cpu(const kernels::batch_norm::blocks::ChannelJob& job, void*) {
  namespace blocks = kernels::batch_norm::blocks;
  const auto use = [](const auto& kernel) { run_blocks(kernel); };
  job.wide ? blocks::with_kernel<double>(job, use) : blocks::with_kernel<float>(job, use);
  return 0;
}

inline constexpr kernels::batch_norm::blocks::Runner kOnCpu = {run_on_cpu, run_on_cpu};

}  // namespace dtrain::testing

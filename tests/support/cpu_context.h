#pragma once

// What a rank of a small training needs: one thread of the CPU, one communicator for all that
// travels, no checkpoints. A test sets the members that it is about.

#include <atomic>

#include "config/config.h"
#include "core/clock.h"
#include "data/order/splits.h"
#include "dist/metered_communicator.h"
#include "train/train_context.h"

namespace dtrain::testing {

// Borrows all of its arguments. The precision is fp32.
inline train::TrainContext cpu_context(const config::Config& config,
                                       const train::BatchArithmetic& batches, tasks::Task& task,
                                       const data::Store& store, const data::Splits& splits,
                                       dist::MeteredCommunicator& comm, monitoring::Sinks& sinks,
                                       const std::atomic<bool>& stop_requested,
                                       const Clock& clock = real_clock()) {
  return {.config = config,
          .batches = batches,
          .task = task,
          .store = store,
          .splits = splits,
          .device = at::kCPU,
          .device_facts = device::properties(at::kCPU),
          .precision = train::Precision::kFp32,
          .loader_threads = 1,
          .cores = 1,
          .host_cores = 1,
          .node = "here",
          .gradients = comm,
          .host = comm,
          .statistics = config.train.sync_batch_norm && comm.size() > 1 ? &comm : nullptr,
          .checkpoints = nullptr,
          .sinks = sinks,
          .stop_requested = stop_requested,
          .verdict_requested = nullptr,
          .progress = {},
          .clock = clock};
}

}  // namespace dtrain::testing

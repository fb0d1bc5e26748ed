#pragma once

// A short training of any task on the samples of example_store.h, on the CPU, with threads as
// ranks: what the weights are afterwards.

#include <ATen/Parallel.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "config/config.h"
#include "data/order/splits.h"
#include "models/parameter_format.h"
#include "support/cpu_context.h"
#include "support/thread_world.h"
#include "tasks/example_store.h"
#include "train/trainer.h"

namespace dtrain::tasks {

struct ShortRun {
  config::Config config;
  int ranks = 1;
  train::Precision precision = train::Precision::kFp64;
  bool static_buffers = false;                  // TrainContext::static_buffers
  train::PhaseTracker::Watchdog progress = {};  // of rank 0
};

inline std::vector<at::Tensor> weights_after(const ShortRun& run, const Example& example) {
  std::vector<at::Tensor> weights;
  dist::run_thread_world(run.ranks, [&](dist::MeteredCommunicator& comm) {
    at::set_num_threads(1);
    const config::Config& config = run.config;
    const std::unique_ptr<Task> task = make_task(config, example.facts);
    models::convert_floating_point(task->model(), train::parameter_dtype(run.precision));
    data::Splits splits;
    splits.train = example.ids;
    const train::BatchArithmetic batches =
        train::batch_arithmetic(config.train, run.ranks, static_cast<int64_t>(example.ids.size()));
    monitoring::Sinks sinks;
    const std::atomic<bool> stop{false};
    const bool first = comm.rank() == 0;
    train::TrainContext context =
        testing::cpu_context(config, batches, *task, *example.store, splits, comm, sinks, stop);
    context.precision = run.precision;
    if (first) context.progress = run.progress;
    context.static_buffers = run.static_buffers;
    train::Trainer trainer(std::move(context));
    trainer.run();
    if (!first) return;
    for (const at::Tensor& parameter : task->model().parameters())
      weights.push_back(parameter.detach().clone());
  });
  return weights;
}

}  // namespace dtrain::tasks

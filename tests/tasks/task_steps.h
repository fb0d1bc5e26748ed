#pragma once

// Twenty training steps of any task on the samples of example_store.h, for tests of what a step
// does on its device. None of them logs, evaluates or saves, and the phase does not change. They
// come after the warm-up, at whose end the ranks gather their measurements once.

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "dist/lone_communicator.h"
#include "measure/run_measurements.h"
#include "tasks/example_store.h"
#include "tasks/module_file.h"
#include "train/trainer.h"

namespace dtrain::tasks {

constexpr int64_t kMeasuredSteps = 20;
// A step ends where the next one begins, so one more than the warm-up.
constexpr auto kStepsBefore = static_cast<int64_t>(measure::RunMeasurements::kWarmUpSteps) + 1;
constexpr int64_t kStepsInAll = kStepsBefore + kMeasuredSteps + 1;  // the last one logs

// Every task and phase, with what makes a step longer: several micro-steps, clipping, averaged
// weights, dropout, keyed augmentation, recomputed activations, a decoder that is fed its
// own choices.
inline std::vector<std::pair<std::string, config::Config>> step_cases() {
  std::vector<std::pair<std::string, config::Config>> cases;
  for (const std::string_view task : names_of(catalog::TaskId{})) {
    config::Config config = example_config(task);
    config.model.dropout = 0.25;
    config.train.batch_size = 3;
    config.train.global_batch = 6;
    config.train.max_steps = kStepsInAll;
    config.train.epochs = 100;
    config.train.ema = 0.9;
    config.train.eval_every = {.epochs = 1000};
    config.run.log_every = {.steps = 1000};
    config.optimizer.clip_norm = 1;
    config.optimizer.clip_value = 5;
    config.checkpoint.every = {};
    config.sequence = {
        .encoder_epochs = 100, .classifier_epochs = 1, .iterations = 0, .encoder_lr_ratio = 0.5};
    cases.emplace_back(task, config);
    if (task == "sequence") {
      config.sequence.encoder_epochs = 0;
      config.sequence.classifier_epochs = 100;
      cases.emplace_back("sequence_classifier", config);
    }
    if (task == "pointer") {
      config.pointer = {.teacher_forcing = 0.5, .teacher_forcing_end = 0};
      cases.emplace_back("pointer_choosing", config);
    }
    if (task == "headpose") {
      config.model.checkpointing = true;
      cases.emplace_back("headpose_checkpointing", config);
      config.model.checkpointing = false;
      config.optimizer.name = config::OptimizerName::kSgd;
      config.train.freeze_batch_norm = true;
      cases.emplace_back("headpose_sgd_frozen", config);
    }
  }
  return cases;
}

// Trains one rank; calls measured(true) before the measured steps and measured(false) after them.
// `device_failed`: as in TrainContext.
inline train::TrainResult train_measured(
    config::Config config, at::Device device, train::Precision precision,
    const std::function<void(bool)>& measured,
    const std::function<void(const Error&)>& device_failed = {}) {
  if (catalog::row(config.task).network_from_file()) config.model.file = module_file().string();
  const Example example = example_for(config);
  const std::unique_ptr<Task> task = make_task(config, example.facts);
  task->check(*example.store);
  task->model().to(device);
  data::Splits splits;
  splits.train = example.ids;
  const train::BatchArithmetic batches =
      train::batch_arithmetic(config.train, /*ranks=*/1, static_cast<int64_t>(example.ids.size()));
  const auto gradients = dist::make_lone_communicator(), host = dist::make_lone_communicator();
  monitoring::Sinks sinks;
  const std::atomic<bool> stop{false};
  int64_t began = -1;  // the step that began last
  train::Trainer trainer({.config = config,
                          .batches = batches,
                          .task = *task,
                          .store = *example.store,
                          .splits = splits,
                          .device = device,
                          .device_facts = device::properties(device),
                          .precision = precision,
                          .loader_threads = 1,
                          .cores = 1,
                          .host_cores = 1,
                          .node = "here",
                          .gradients = *gradients,
                          .host = *host,
                          .statistics = nullptr,
                          .checkpoints = nullptr,
                          .sinks = sinks,
                          .stop_requested = stop,
                          .verdict_requested = nullptr,
                          .progress =
                              [&](const char* phase, int64_t step) {
                                if (std::string_view(phase) != "data_wait" || step == began) return;
                                began = step;
                                if (step == kStepsBefore) measured(true);
                                if (step == kStepsBefore + kMeasuredSteps) measured(false);
                              },
                          .device_failed = device_failed});
  return trainer.run();
}

}  // namespace dtrain::tasks

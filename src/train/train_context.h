#pragma once

// What the steps of a run and its loop work with. The training job (job/training_job.h) makes these
// parts and keeps them alive while a StepRunner or Trainer lives.

#include <torch/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "checkpoint/store.h"
#include "config/config.h"
#include "core/clock.h"
#include "core/error.h"
#include "data/order/splits.h"
#include "data/store.h"
#include "device/device.h"
#include "dist/metered_communicator.h"
#include "measure/rank_sample.h"
#include "monitoring/sink.h"
#include "tasks/task.h"
#include "trace/recorder.h"
#include "train/batch_arithmetic.h"
#include "train/phase_tracker.h"
#include "train/precision.h"

namespace dtrain::train {

// What to change when memory is full, given the bytes that could not be allocated (0: not known);
// "" if that is not known. Takes seconds, and never throws.
using MemoryAdvice = std::function<std::string(double requested)>;

struct TrainContext {
  const config::Config& config;
  const BatchArithmetic& batches;
  tasks::Task& task;  // its model is on `device`, in the parameter dtype of `precision`
  const data::Store& store;
  const data::Splits& splits;
  at::Device device;
  device::Properties device_facts;  // what the driver says of it
  Precision precision;
  int loader_threads;                    // reader threads of this rank
  int cores, host_cores;                 // that this rank may use; of its host
  std::string node;                      // its host's name
  dist::MeteredCommunicator& gradients;  // carries tensors of `device`
  dist::MeteredCommunicator& host;       // carries CPU tensors
  // Tensors of `device`, for train.sync_batch_norm; nullptr: not synchronized
  dist::MeteredCommunicator* statistics;
  // rank 0's; nullptr on the other ranks, and if config.run.name is empty (no saving)
  checkpoint::CheckpointStore* checkpoints;
  monitoring::Sinks& sinks;                 // each one receives every step and evaluation
  const std::atomic<bool>& stop_requested;  // may be set from a signal handler: save, then stop
  std::atomic<bool>* verdict_requested;     // likewise: judge the run so far; nullptr: no requests
  PhaseTracker::Watchdog progress;  // receives the phase and the step of this rank; may be empty
  // Called when the GPU has failed, while everything that belongs to it still lives; should end the
  // process, because LibTorch's destructors throw from then on. May be empty: run() then throws
  // the error.
  std::function<void(const Error&)> device_failed = {};
  // Called on rank 0 before each save and at each step line: throws OutputError, which ends the run
  // on all ranks, if the run folder is no longer there. May be empty.
  std::function<void()> check_run_folder = {};
  // What the sensors said since the last call; may be empty
  std::function<measure::Values()> take_gpu_use = {};
  MemoryAdvice memory_advice = {};  // may be empty
  // The epoch whose samples data.verify first_epoch compares: the first one that this file is
  // used for.
  int64_t verified_epoch = 0;
  // Resumed from a checkpoint of another run: this one has none yet, and saves one before its first
  // step. Killed before that, it would begin with the first step of all.
  bool branches = false;
  // About how many seconds StepRunner::measure_headroom() takes before training; 0: not called
  double headroom_seconds = 0;
  // Now and then half of the reader threads rest, to learn whether they are in each other's way.
  // Only for a run whose verdict needs that.
  bool compare_readers = false;
  // The batches of a shape have the same tensors in every step (data/loader/batch_tensors.h): what
  // CUDA graphs need.
  bool static_buffers = false;
  // train.global_batch is what to change: train.accumulate follows from it
  bool global_batch_given = false;
  const Clock& clock = real_clock();    // for intervals in minutes
  trace::Recorder* recorder = nullptr;  // records what the threads do; nullptr: nothing does
};

}  // namespace dtrain::train

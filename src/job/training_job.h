#pragma once

// A training run from its configuration to its exit code, as a chain of stages. Each stage is a
// value that knows what the stages before it have found out, and has the verb that makes the next
// one of it: an order that makes no sense does not compile, and nothing can be read before it is
// known. `dtrain train` takes all of them:
//
//   plan_training()      which run, from which checkpoint, with which configuration  PlannedRun
//   .open_data()         the samples, and which of them are for training             OpenedRun
//   .make_task()         the network and the arithmetic of its batches               PreparedRun
//   .place_on_device()   the network on the device of this rank                      PlacedRun
//   .check_training()    what would end or spoil the training late                   PlacedRun
//   .connect()           communicators and the watchdog                              ConnectedRun
//   .claim_name()        the run folder is this run's                                NamedRun
//   .announce()          the display, the files of the run and the banner            AnnouncedRun
//   .train()             trains, evaluates and saves                                 FinishedRun
//   .conclude()          the verdict, the last line and the report                   the exit code
//
// A command that needs a run only up to a point stops there; it measures with StepTrial
// (job/step_trial.h). A stage is also each stage before it, so that a function takes the earliest
// one that suffices. The verb that has been taken is deleted.
//
// All ranks take every verb. In open_data, make_task, check_training, claim_name, announce and
// plan_training they agree on errors: all ranks end with one message and one exit code. In the
// other verbs the rank that fails ends the whole job. Thread-safety: the training thread alone.
// Ownership: a stage borrows the process, and owns everything else.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "config/load.h"
#include "device/device.h"
#include "job/connections.h"
#include "job/data_set.h"
#include "job/device_sharing.h"
#include "job/process_context.h"
#include "job/run_folder.h"
#include "job/run_paths.h"
#include "tasks/task.h"
#include "train/batch_arithmetic.h"
#include "train/phases.h"
#include "train/precision.h"
#include "train/train_context.h"
#include "train/train_result.h"

namespace dtrain::job {

class RunDisplay;
struct OpenedRun;
struct PreparedRun;
struct PlacedRun;
struct ConnectedRun;
struct NamedRun;
struct AnnouncedRun;
struct FinishedRun;

struct PlannedRun {
  ProcessContext& process;
  config::Loaded loaded;
  bool dry_run;
  RunPlan plan = {};                                  // empty in a dry run
  std::optional<checkpoint::Snapshot> snapshot = {};  // the checkpoint that is resumed
  RunPaths paths = {};                                // the run that it is from
  config::Config config = {};                         // resolved
  std::string batch_decided_by = {};                  // for the banner
  std::string preset = {};                            // what device.preset set, for the banner

  bool is_rank0() const { return process.host.rank() == 0; }
  int64_t done_steps() const { return snapshot ? snapshot->step : 0; }

  // Generates the quick-start data where no file is given.
  OpenedRun open_data() &&;
};

// With `dry_run` nothing is written but quick-start data, and training ends after step 1.
PlannedRun plan_training(ProcessContext&, config::Loaded, bool dry_run);

struct OpenedRun : PlannedRun {
  DataSet data;
  int loader_threads;

  void open_data() = delete;
  // Checked against the data, and with the weights of model.init.
  PreparedRun make_task() &&;
};

struct PreparedRun : OpenedRun {
  std::unique_ptr<tasks::Task> task = {};
  std::vector<std::string> initial = {};  // what was taken from model.init, for the log
  train::BatchArithmetic batches = {};
  int64_t epochs = 0;                         // at most those of train.epochs
  bool global_batch_given = false;            // train.global_batch, before it was filled in
  device::Properties device_properties = {};  // what the driver says of the device
  train::Precision precision = {};

  std::vector<train::RunPhase> phases() const { return train::phases_of(*task, epochs); }
  // Whether the checkpoint has more steps than the run. Then leave_unchanged() says so, and returns
  // the exit code.
  bool is_beyond_its_end() const { return snapshot && snapshot->step > batches.total_steps; }
  int leave_unchanged() const;
  // For measurements: the training samples are from now on the `samples` longest ones, whose
  // batches need most memory.
  void keep_longest(int64_t samples);

  void make_task() = delete;
  PlacedRun place_on_device() &&;
};

struct PlacedRun : PreparedRun {
  void place_on_device() = delete;
  PlacedRun check_training() &&;  // job/single_samples.h, and the warm-up of the learning rate
  ConnectedRun connect() &&;
};

struct ConnectedRun : PlacedRun {
  std::unique_ptr<Connections> connections;
  Sharing sharing;  // the device's memory, with other ranks

  // What a trainer works with that saves and shows nothing. Borrows its arguments and this run,
  // which must not be moved as long as the trainer lives.
  train::TrainContext context(const config::Config&, const train::BatchArithmetic&,
                              const data::Splits&, monitoring::Sinks&,
                              const std::atomic<bool>& stop_requested) const;
  // For measurements, after the last step: waits for all ranks, and the watchdog ends. Collective.
  void end_watch() const { connections->watchdog().close(); }

  void check_training() = delete;
  void connect() = delete;
  // Creates the folder of a generated name. From here on a stop saves after step 1.
  NamedRun claim_name() &&;
};

struct NamedRun : ConnectedRun {
  void claim_name() = delete;
  AnnouncedRun announce() &&;
};

// Callers of its verbs include job/run_display.h.
struct AnnouncedRun : NamedRun {
  std::unique_ptr<RunDisplay> display;

  void announce() = delete;
  FinishedRun train() &&;
};

struct FinishedRun : AnnouncedRun {
  train::TrainResult outcome;
  const std::atomic<bool>& stop_requested;

  void train() = delete;
  int conclude() &&;
};

}  // namespace dtrain::job

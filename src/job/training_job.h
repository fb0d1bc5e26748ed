#pragma once

// A training run put together from its parts, verb by verb, in the order of start-up. `dtrain
// train` calls them all; a command that needs a run only up to a point (its data, its task on a
// device, its communicators) stops there. What shows the run is in training_job_metrics.cpp, and
// what only measures it in training_job_measure.cpp.
//
// All ranks call every verb. plan, open_data, make_task, check_training, claim_name,
// open_metrics and
// announce agree on errors: all ranks end with one message and one exit code. In the other
// verbs the
// rank that fails ends the whole job. Thread-safety: the training thread alone. Ownership:
// borrows the
// process, owns everything else.

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store.h"
#include "config/load.h"
#include "core/file_system.h"
#include "core/log.h"
#include "device/device.h"
#include "dist/communicator.h"
#include "dist/watchdog.h"
#include "job/banner.h"
#include "job/data_set.h"
#include "job/device_sharing.h"
#include "job/process_context.h"
#include "job/run_folder.h"
#include "job/run_paths.h"
#include "monitoring/gpu_metrics.h"
#include "monitoring/live_page.h"
#include "monitoring/signpost_page.h"
#include "monitoring/sink.h"
#include "monitoring/targets_file.h"
#include "tasks/task.h"
#include "train/batch_arithmetic.h"
#include "train/phases.h"
#include "train/precision.h"
#include "train/trainer.h"

namespace dtrain::job {

class TrainingJob {
 public:
  // With `dry_run` nothing is written but quick-start data, and training ends after step 1.
  TrainingJob(ProcessContext&, config::Loaded, bool dry_run);
  ~TrainingJob();
  TrainingJob(const TrainingJob&) = delete;
  TrainingJob& operator=(const TrainingJob&) = delete;

  void plan();       // which run, from which checkpoint, with which configuration
  void open_data();  // generates the quick-start set where no file is given
  // checked against the data; initial weights are loaded, the batch arithmetic is known
  void make_task();
  bool is_beyond_its_end()
      const;  // the checkpoint has more steps than the run shall have: leave_unchanged()
  int leave_unchanged() const;  // says so; returns the exit code
  void place_on_device();       // precision, determinism, the network on its device
  void check_training();        // what ends or spoils it late: single_samples.h
  void connect();               // from here on ranks wait for each other, and the watchdog watches
  void
  claim_name();  // a generated one, by creating its folder; from here on a stop saves after step 1
  void open_metrics();  // the endpoint, whose address the banner and the targets file need
  void announce();      // rank 0: the run folder and its files, the banner
  void run();           // trains, evaluates and saves
  int conclude();       // the verdict and the last line; returns the exit code

  // For measurements, after connect() and in place of the verbs below it: a trainer of this run
  // with other batches, one at a time. It has no run folder and no sinks. end_watch() after the
  // last step of the last one. Both are collective.
  struct Trial {
    int64_t batch_size = 0, accumulate = 1;
    int64_t prefetch = 0;                 // 0: that of the run
    int loader_threads = 0;               // 0: those of the run
    trace::Recorder* recorder = nullptr;  // of what its threads do
    // All steps have as many samples, so that their mean is the time of each: what is left of an
    // epoch is left out. (An epoch of less than one step is one step.)
    bool whole_steps = false;
  };
  std::unique_ptr<train::Trainer> make_trainer(const Trial&);
  void end_watch();
  // After make_task(): the training samples are from now on the `samples` longest ones, whose
  // batches need most memory.
  void keep_longest(int64_t samples);
  // Throws the DeviceError of a training if the error is about the memory of the device, and ends
  // the process if the device has failed; returns otherwise.
  void throw_device_failure(const c10::Error&);
  // What to change when memory is full for the last trainer; see job/memory_advice.h.
  // Not collective.
  std::string memory_advice(double requested) const {
    return memory_advice(trial_batches_, requested);
  }

  // What the verbs so far have made.
  const config::Config& config() const { return config_; }
  const DataSet& data() const { return data_; }                       // open_data()
  tasks::Task& task() const { return *task_; }                        // make_task()
  const train::BatchArithmetic& batches() const { return batches_; }  // make_task()
  std::vector<train::RunPhase> phases() const {
    return train::phases_of(*task_, epochs_);
  }                                                              // make_task()
  train::Precision precision() const { return precision_; }      // make_task()
  int loader_threads() const { return loader_threads_; }         // open_data()
  dist::Communicator& gradients() const { return *gradients_; }  // connect()
  dist::Communicator* statistics() const {
    return statistics_.get();
  }  // connect(); null where they are not shared
  ProcessContext& process() const { return process_; }

 private:
  bool is_rank0() const { return process_.host.rank() == 0; }
  DataSet open_own_data() const;
  void check_task();
  void check_splits() const;
  void load_initial_weights();
  void share_name();
  void check_password_file();  // of each rank
  std::vector<monitoring::Page> make_page();
  void complete_page(const std::vector<RankPlace>&);
  void read_gpu_for_verdict();
  std::string precision_advice() const;
  BannerFacts facts() const;
  void write_targets(const std::vector<RankPlace>&);
  train::TrainContext train_context(const config::Config&, const train::BatchArithmetic&,
                                    const data::Splits&, checkpoint::Store*,
                                    const std::atomic<bool>& stop_requested);
  void train(checkpoint::Store*);  // null: nothing is saved here
  std::optional<train::DeviceFailure> device_failure(const c10::Error&,
                                                     const train::BatchArithmetic&,
                                                     const std::string& where) const;
  std::string memory_advice(const train::BatchArithmetic&, double requested) const;
  std::vector<std::string> failed_communicators();  // messages; on the watchdog's thread
  void say_failed();                                // to all sinks
  [[noreturn]] void end_process(
      const Error&);  // before anything that belongs to a failed GPU is destroyed
  std::string last_line() const;
  void linger() const;  // metrics.linger_seconds, or until somebody asks to stop

  ProcessContext& process_;
  config::Loaded loaded_;
  const bool dry_run_;
  RunPlan plan_;
  std::optional<checkpoint::Snapshot> snapshot_;  // of the checkpoint that is resumed
  RunPaths paths_;                                // of the run that it is from
  config::Config config_;                         // resolved
  std::string batch_decided_by_;
  std::string preset_;  // what it set, for the banner
  DataSet data_;
  std::unique_ptr<tasks::Task> task_;
  std::vector<std::string> initial_;  // what was taken from model.init, for the log
  train::BatchArithmetic batches_;
  int64_t epochs_ = 0;               // of the run, which train.max_steps may end
  bool global_batch_given_ = false;  // before it was filled in
  device::Properties device_;        // what the driver says of it, asked once
  Sharing sharing_;                  // of its memory, with other ranks; connect()
  train::Precision precision_{};
  int loader_threads_ = 1;
  std::mutex asked_mutex_;
  std::vector<std::pair<const char*, dist::Communicator*>>
      asked_;  // both by name, for the watchdog's thread
  std::unique_ptr<dist::Watchdog> watchdog_;
  const std::atomic<bool>* stop_requested_ = nullptr;  // run()
  std::unique_ptr<FileSystem> files_;                  // whose progress the watchdog sees
  std::unique_ptr<dist::Communicator> gradients_;
  std::unique_ptr<dist::Communicator> statistics_;  // of batch norm; null where they are not shared
  monitoring::Sinks sinks_;
  std::string metrics_address_;
  std::unique_ptr<monitoring::GpuPoller> gpu_poller_;  // of the GPU, where no sink reads it
  std::function<measure::Values()> take_gpu_use_;      // from it, or from one of the sinks; a GPU
  monitoring::LivePage* live_page_ = nullptr;  // one of the sinks; rank 0, with metrics.enabled
  std::optional<log::Tap> page_log_;           // the lines for it
  std::optional<monitoring::SignpostPage> signpost_;  // the other ranks
  std::unique_ptr<monitoring::TargetsFile> targets_;  // rank 0
  train::TrainResult outcome_;
  config::Config trial_config_;  // of the last make_trainer()
  data::Splits trial_splits_;    // of training alone
  train::BatchArithmetic trial_batches_;
};

}  // namespace dtrain::job

#pragma once

// How far a run is, by what its folder shows while a job trains in it: the records of metrics.jsonl
// and the checkpoints. A step counts once the run has reported it (run.log_every). Nothing that is
// in the folder is an error: what cannot be read is progress that is not known.
// Thread-safety: none.

#include <cstdint>
#include <filesystem>
#include <map>

namespace dtrain::supervisor {

struct StepAt {
  int64_t step = -1;  // -1: none
  // Seconds since 1970 by the clock of rank 0's host, which may differ from the one here
  double time = 0;
};

// The step of a checkpoint by its name ("step_00001234"), or of the newest one of a run; -1:
// neither is there.
int64_t step_at(const std::filesystem::path& checkpoint_or_run);

class RunProgress {
 public:
  // `run` "": it has no folder yet, and no progress.
  // `from_step`: of the checkpoint of another run that this one begins with; -1: none.
  explicit RunProgress(std::filesystem::path run, int64_t from_step = -1);

  // A job begins now: the records that are there do not count.
  void begin_job();
  // Reads the end of the records, and the names of the checkpoints. To be called each second or so,
  // and at the end.
  void look();
  // Reads the newest checkpoint back, and the one before where it is damaged, as a job does that
  // goes on from there. Damaged ones no longer count, until they are written again. For the time
  // after a job that failed.
  void verify();

  int64_t saved() const { return saved_; }  // step of the newest checkpoint; -1: none
  int64_t trained() const;                  // last step that the job has reported; -1: none
  // Steps that the job has made and that no checkpoint has: what a restart now would make again.
  int64_t unsaved_steps() const;
  // Seconds in which the job made steps, of those that are `kept`: all, or those that the newest
  // checkpoint has.
  enum class Kept { kAll, kSaved };
  double useful_seconds(Kept) const;

 private:
  int64_t newest_step() const;  // newest of the checkpoints that count; -1: none

  std::filesystem::path run_;
  // Manifests, and when they were written
  std::map<std::filesystem::path, std::filesystem::file_time_type> damaged_;
  int64_t saved_ = -1;
  int64_t begin_;      // step of another run's checkpoint that this run begins with; -1: none
  int64_t from_ = -1;  // the step that this job goes on from
  struct Earlier {
    int64_t bytes = 0;
    double time = 0;     // time of the last record
  } earlier_;            // metrics.jsonl before this job
  StepAt first_, last_;  // records of this job
  // Step of a checkpoint that was the newest -> the last record that it has
  std::map<int64_t, StepAt> kept_;
};

}  // namespace dtrain::supervisor

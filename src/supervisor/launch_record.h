#pragma once

// What a launch did: each event as a line of runs/NAME/launch.jsonl, and its numbers (restarts by
// cause, lost steps, the share of the time that trained). Thread-safety: none.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "monitoring/launch_metrics.h"
#include "os/file_lock.h"
#include "supervisor/job_end.h"
#include "supervisor/mpirun_command.h"
#include "supervisor/run_progress.h"

namespace dtrain::monitoring {
class AppendFile;
}  // namespace dtrain::monitoring

namespace dtrain::supervisor {

struct LaunchTotals : monitoring::LaunchNumbers {
  double useful_seconds = 0;  // training time of steps that were kept, or are not lost yet
  double seconds = 0;         // time since the launch began
};

class LaunchRecord {
 public:
  // The folder is this run's if it `may_exist`, because the run is resumed, or if a job makes it.
  // The file is opened once a job of this launch holds the run, or has ended and none does: of
  // two launches that start the same run at the same moment, the one that trains it writes the
  // record. Borrows the clock.
  // `run` may be "" until a job has named it: then run_is_held() says it, and the folder is
  // that job's.
  // `from_step`: of the checkpoint of another run that this one begins with; -1: none.
  LaunchRecord(std::filesystem::path run, bool may_exist, int64_t from_step, const Clock& clock);
  ~LaunchRecord();

  // OutputError where the file is there and is a link or no regular file. Later on, that is
  // a warning.
  void launch_started(const std::vector<std::string>& command);
  void job_started(const Placement&);
  void run_is_held(const std::filesystem::path& run);  // rank 0 of the job holds it
  void look();                                         // each second or so while a job runs
  // `text`: the cause in one line.
  void job_ended(EndCause, const JobEnd&, std::optional<int> rank, const std::string& text);
  void restart(EndCause of_the_job_before);
  void host_lost(const std::string& host, const std::string& why);
  void host_back(const std::string& host);
  void stop_asked(const std::string& signal);
  void launch_ended(int exit_code, const std::string& why);

  bool is_of_this_run() const { return is_ours_; }  // the folder, once it is there
  bool is_open() const { return file_ != nullptr; }
  bool job_runs() const { return job_runs_; }
  const RunProgress& progress() const { return progress_; }
  LaunchTotals totals() const;

 private:
  void write(const std::string& line);
  std::filesystem::path file_name() const { return run_ / "launch.jsonl"; }
  void open_file();
  void settle();  // between two jobs

  std::filesystem::path run_;
  const bool may_exist_;
  bool is_ours_;          // the folder
  bool is_held_ = false;  // a job of this launch held the run, or none did after it
  const Clock& clock_;
  FileLock lock_;  // while it writes
  std::unique_ptr<monitoring::AppendFile> file_;
  std::vector<std::string> pending_;  // events from before the run was held
  RunProgress progress_;
  LaunchTotals totals_;  // time and lost steps: only of jobs that have ended
  bool job_runs_ = false, has_warned_ = false;
  Clock::Steady::time_point began_, job_began_;
};

}  // namespace dtrain::supervisor

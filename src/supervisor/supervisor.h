#pragma once

// Runs a training job under mpirun until it is done: starts it again after failures, from the
// newest checkpoint that verifies (which the job itself chooses, by --resume auto), on the hosts
// that answer; and passes on requests to stop.
//
// What it needs to know of a job it takes from mpirun's exit code and words, from the lines that
// ranks write for it (dist/supervisor_lines.h), and from the run folder. So the job is the same as
// without a supervisor. Thread-safety: none.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/clock.h"
#include "monitoring/launch_metrics.h"
#include "supervisor/hosts.h"
#include "supervisor/job_end.h"
#include "supervisor/launch_record.h"
#include "supervisor/signal_queue.h"

namespace dtrain::supervisor {

struct LaunchOptions {
  int ranks = 1;
  int min_ranks = 1;
  std::vector<Host> hosts;  // empty: mpirun's own choice, and no host is watched
  RestartLimits restarts;
  double grace = 30;                // seconds from a request to stop until the job is ended
  double host_timeout = 30;         // seconds without an answer after which a host is given up
  std::vector<std::string> mpirun;  // flags of the user for it
};

// The run that the job trains.
struct LaunchedRun {
  std::string name;                  // "": rank 0 generates one, and names it in its banner
  std::filesystem::path runs;        // the folder of all runs
  std::vector<std::string> command;  // what the user typed, for the record
  // The path of dtrain, "train" and its arguments, but for a name and --resume
  std::vector<std::string> program;
  // The user's own --resume, until the run has a checkpoint of this launch
  std::vector<std::string> resume;
  int64_t from_step = -1;  // step of the checkpoint that --resume PATH names; -1: none
  std::string variable;    // NAME=VALUE, for the environment of all jobs; "": none
  // Global batch with `LaunchOptions::ranks` ranks, for a run that begins with fewer ranks
  int64_t global_batch = 0;
};

// The exit code of the launch: 0 when the run is finished, 75 after a request to stop, 76 where too
// few hosts answer, that of the job otherwise, or of the error because of which it cannot be
// started. OutputError if another job trains the run.
int supervise(const LaunchOptions&, const LaunchedRun&, SignalQueue&, LaunchRecord&,
              monitoring::LaunchMetrics&, const Clock&);

}  // namespace dtrain::supervisor

#pragma once

// Which run this is, a new one or one that is resumed, and its folder. Only rank 0 reads and writes
// the folder; it sends the other ranks what they need.

#include <filesystem>
#include <optional>
#include <string>

#include "config/config.h"
#include "os/file_lock.h"
#include "os/file_system.h"

namespace dtrain::dist {
class Communicator;
}

namespace dtrain::job {

struct RunPlan {
  std::string name;
  std::filesystem::path folder;                     // config.run.folder / name
  std::optional<std::filesystem::path> checkpoint;  // to resume from
  bool branches = false;  // the checkpoint is of another run, and this one has none of its own
  bool existed = false;
  bool generated = false;  // the name: another one is as good
  bool made = false;       // the folder, by this process
  FileLock lock;           // locks the folder: one process at a time trains a run
};

// The name that a configuration gives to its run: run.name, or that of the run which run.resume
// names. "": rank 0 generates one, task-date-time. ConfigError: --resume auto without a name, or a
// name that cannot be a folder's.
std::string run_name(const config::Config&);

// Rank 0 only. Locks an existing folder and creates nothing. `may_start`: something says what to
// train, so that --resume auto without a checkpoint starts a run. OutputError: the name is taken
// and --resume is not given, another process trains the run, its log.txt, metrics.jsonl, .lock or
// checkpoints is a link, or its folder is among the files of another run. ConfigError: --resume
// auto without a name, or with nothing to resume or to start. CheckpointError: --resume PATH
// without a checkpoint that verifies. Checkpoints that are skipped are logged.
RunPlan plan_run(const config::Config&, bool may_start);

// Gives all ranks the name, the folder and `branches` of rank 0. Collective.
void share_name(dist::Communicator& host, const std::string& runs_folder, RunPlan&);

// Rank 0 only, for a generated name: creates and locks the folder. Runs that start in the same
// second generate the same name: whoever creates the folder has it, and the others get -2, -3, ...
// behind it. OutputError.
void claim_generated_name(RunPlan&, FileSystem&);

// Rank 0 only: creates and locks the folder, unless that is done, opens log.txt, writes config.yaml
// and environment.json. OutputError, also if another process has created the folder
// since plan_run().
void create_run(RunPlan&, const config::Config&, const std::string& environment_json, FileSystem&);

// Rank 0 only, once the run is created: OutputError if the folder of the run, or its lock, is no
// longer the one of this job. A folder that was removed would be made again by the next save, and a
// second job could start in it.
void check_run_folder(const RunPlan&);

}  // namespace dtrain::job

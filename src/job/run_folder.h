#pragma once

// Which run this is: a new one, or one that goes on. Rank 0 alone touches the folder; the others get the answer from
// it.

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/store.h"
#include "config/config.h"
#include "core/file_lock.h"
#include "core/file_system.h"

namespace dtrain::job {

struct RunPlan {
  std::string name;
  std::filesystem::path folder;                     // config.run.folder / name
  std::optional<std::filesystem::path> checkpoint;  // to resume from
  bool existed = false;
  FileLock lock;  // of the folder: one process at a time trains a run
};

// Rank 0 only; of what exists it takes the lock, and creates nothing else. OutputError: the name is taken and --resume
// is not given, or the run is being trained. ConfigError: --resume auto
// without a name. CheckpointError: --resume PATH without a checkpoint that verifies. Skipped checkpoints are logged.
RunPlan plan_run(const config::Config&);

// The checkpoint that `path` names: itself, or the newest one of a run folder that verifies (those passed over are
// logged). CheckpointError: there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path&);

// Rank 0 only: makes and locks the folder (OutputError if another process made it since), opens log.txt, writes
// config.yaml and environment.json. OutputError.
void create_run(RunPlan&, const config::Config&, const std::string& environment_json, FileSystem&);

}  // namespace dtrain::job

#pragma once

// Which checkpoint a command takes, of those that a run has. Only rank 0 reads them. Checkpoints
// that do not verify are logged and skipped.

#include <filesystem>
#include <optional>
#include <string>

#include "train/training_state.h"

namespace dtrain::job {

// A checkpoint as the user names it: `path` is its folder, or that of a run; of a run, `choice` is
// "newest" (the same as ""), "best", or a step.
struct CheckpointName {
  std::string path, choice;
};

struct FoundCheckpoint {
  std::filesystem::path folder;
  // "newest", "best: mae 2.6810", "step 40"; "" if `path` was the checkpoint itself
  std::string chosen;
};

// CheckpointError: no such folder or checkpoint, none that verifies, or no best one (never
// evaluated, or removed since). UsageError: a choice that is none of those words, or with the
// folder of a checkpoint. Only the newest one has been verified: Store::load() and Store::verify()
// do it for the others.
FoundCheckpoint find_checkpoint(const CheckpointName&);

// The newest checkpoint of a run that verifies; `damaged` (may be null) is set if others
// were skipped.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run,
                                                       bool* damaged = nullptr);

bool is_checkpoint(const std::filesystem::path& folder);
// state.json of a checkpoint, compared with its SHA-256. CheckpointError.
train::TrainingState read_state(const std::filesystem::path& checkpoint);

}  // namespace dtrain::job

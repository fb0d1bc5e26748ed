#pragma once

// Checkpoints on disk: a folder step_00001234/ with model.safetensors, optimizer.safetensors,
// state.json, rank_N.safetensors and MANIFEST.json (SHA-256 and size of each file, step,
// world size).
//
// A checkpoint exists whole and verified, or not at all: it is written under a temporary name,
// every file and folder is fsynced, the folder is renamed, its parent is fsynced, and all of it is
// read back and verified before an older checkpoint is deleted. Only rank 0 uses a CheckpointStore;
// the trainer's communicator moves snapshots between the ranks. Errors: OutputError (cannot be
// written), CheckpointError (does not verify). Thread-safety: none.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/parallel.h"
#include "os/file_system.h"

namespace dtrain::checkpoint {

// The whole state of a training run between two steps. The store does not interpret it.
struct Snapshot {
  int64_t step = 0;  // optimizer steps done
  int world_size = 1;
  NamedTensors model;
  Metadata model_metadata;
  NamedTensors optimizer;
  std::string state_json;  // the trainer's: scaler, schedule, position, ledger, metric, versions
  std::vector<NamedTensors> ranks;  // one per rank, in rank order: generators, local statistics
};

// A checkpoint that does not verify, and why.
struct Skipped {
  std::filesystem::path folder;
  std::string reason;
};

class CheckpointStore {
 public:
  // Keeps the checkpoints of a run in `folder`, which save() creates; its parent must exist.
  // Borrows `files`.
  CheckpointStore(std::filesystem::path folder, FileSystem& files, int64_t keep_last);

  // Writes and verifies a checkpoint, and returns its folder. Then deletes all but the keep_last
  // newest checkpoints and the protected one; if that fails, it warns. The first save also calls
  // tidy(). Checkpoints of later steps are never touched, nor is anything with a name that this
  // class does not give.
  std::filesystem::path save(const Snapshot&);
  // Removes what interrupted runs left half-written; if that fails, it warns. Requires: no other
  // process saves here.
  void tidy();
  // Exempts the checkpoint of this step (the best one) from deletion until another step is
  // protected. Not remembered across runs.
  void protect(int64_t step);

  // The checkpoint of the highest step that verifies. `skipped`, which may be null, receives the
  // damaged ones of higher steps.
  std::optional<std::filesystem::path> newest(std::vector<Skipped>* skipped) const;
  // Step and folder of each checkpoint, not verified, newest first
  std::vector<std::pair<int64_t, std::filesystem::path>> list() const;
  std::filesystem::path folder_of(int64_t step) const;  // whether or not it is there
  // state.json, compared with its SHA-256 in the manifest; reads no other file. CheckpointError.
  static std::string read_state(const std::filesystem::path& checkpoint);
  // Throws CheckpointError with the damaged file. Reports bytes.
  static void verify(const std::filesystem::path& checkpoint, const ReportProgress& report = {});
  static Snapshot load(const std::filesystem::path& checkpoint);  // verifies first

 private:
  void prune(int64_t saved);

  std::filesystem::path folder_;
  FileSystem& files_;
  int64_t keep_last_;
  int64_t protected_step_ = -1;
  bool tidied_ = false;
};

// `path` is the folder of a checkpoint or one .safetensors file. With `verify`, every file of a
// folder is compared with its SHA-256 in the manifest. Throws CheckpointError.
std::string inspect_checkpoint(const std::filesystem::path& path, bool verify,
                               const ReportProgress& report = {});

}  // namespace dtrain::checkpoint

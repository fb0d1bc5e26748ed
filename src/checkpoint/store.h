#pragma once

// Checkpoints on disk: folder step_00001234/ with model.safetensors, optimizer.safetensors, state.json,
// rank_N.safetensors and MANIFEST.json (SHA-256 and size of each file, step, world size).
//
// A checkpoint exists whole and verified or not at all: written under a temporary name, every file and folder fsynced,
// renamed, the parent fsynced, read back and verified before an older one is deleted. Only rank 0 uses a Store; what is
// in it comes and goes through the trainer's communicator. The snapshot is opaque here.
// Errors: OutputError (writing), CheckpointError (nothing that verifies). Thread-safety: none.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/file_system.h"

namespace dtrain::checkpoint {

struct Snapshot {
  int64_t step = 0;  // optimizer steps done
  int world_size = 1;
  NamedTensors model;
  Metadata model_metadata;
  NamedTensors optimizer;
  std::string state_json;           // trainer's: scaler, schedule, position, ledger, metric, versions
  std::vector<NamedTensors> ranks;  // one per rank: generators, local statistics
};

struct Skipped {
  std::filesystem::path folder;
  std::string reason;
};

class Store {
 public:
  Store(std::filesystem::path folder, FileSystem& files, int64_t keep_last);

  // Returns the folder. Then deletes older checkpoints than the keep_last newest, the protected one left out; a failure
  // of that is only a warning. The first save also clears what dead runs left half-written. Checkpoints of later steps,
  // and whatever this class did not name, are never touched.
  std::filesystem::path save(const Snapshot&);
  void protect(int64_t step);  // the best: never deleted until another is protected (not remembered across runs)
  // The one with the highest step that verifies; `skipped` (may be null) gets the damaged ones before it.
  std::optional<std::filesystem::path> newest(std::vector<Skipped>* skipped) const;
  static void verify(const std::filesystem::path& checkpoint);    // CheckpointError naming the file
  static Snapshot load(const std::filesystem::path& checkpoint);  // verifies first

 private:
  void tidy();
  void prune(int64_t saved);

  std::filesystem::path folder_;
  FileSystem& files_;
  int64_t keep_last_;
  int64_t protected_step_ = -1;
  bool tidied_ = false;
};

}  // namespace dtrain::checkpoint

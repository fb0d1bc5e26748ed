// Where the run is written and its data read.

#include "doctor/checks.h"
#include "text/strings.h"

namespace dtrain::doctor {
namespace {

constexpr int64_t kFewFiles = 100;

Outcome check_run_folder(const Launch& launch) {
  Outcome outcome;
  const RankFacts& writer = launch.first();
  if (!outcome.can_judge(writer.run_system.has_value(), "unknown")) return outcome;
  const os::FileSystemFacts& system = *writer.run_system;
  const std::string folder = launch.config.run.folder;
  if (system.read_only || !system.writable) {
    outcome.add(
        writer, Severity::kBlocks, "the run folder cannot be written",
        str(folder, ": ", system.folder,
            system.read_only ? " is on a read-only file system" : " belongs to another user"),
        "--run.folder on another disk, or chmod u+w");
  }
  if (writer.run_lock == "fails") {
    outcome.add(
        writer, Severity::kNote,
        "the run folder cannot be locked: nothing keeps a second job from writing to the same run",
        str(folder, " is on ", system.type.empty() ? "a file system" : system.type,
            " without locks"),
        str("findmnt ", system.mount_point,
            " shows how it is mounted; mount it with -o flock (Lustre) or without nolock (NFS), or "
            "--run.folder on another disk"));
  }
  return outcome;
}

Outcome check_disk_space(const Launch& launch) {
  Outcome outcome;
  const RankFacts& writer = launch.first();
  if (!outcome.can_judge(writer.run_system && writer.run_system->free_bytes, "unknown"))
    return outcome;
  const os::FileSystemFacts& system = *writer.run_system;
  if (system.free_files && *system.free_files < kFewFiles) {
    outcome.add(writer, Severity::kBlocks, "the disk of the run folder has no room for more files",
                str(system.folder, ": ", *system.free_files, " can be created"),
                str("df -i ", system.mount_point,
                    " shows it; remove files there, or --run.folder on another disk"));
  }
  if (!outcome.can_judge(writer.network.has_value(), writer.network_problem)) return outcome;
  const config::Checkpoint& saving = launch.config.checkpoint;
  // A new one is written and verified before an older one is removed.
  const int64_t kept = saving.keep_last + (saving.keep_best ? 1 : 0) + 1;
  const int64_t average = launch.config.train.ema > 0 ? writer.network->model_bytes : 0;
  const int64_t size = writer.network->model_bytes + writer.network->optimizer_bytes + average;
  if (*system.free_bytes >= kept * size) return outcome;
  std::string fix =
      str("--run.folder on another disk, or free ", bytes(kept * size - *system.free_bytes));
  const int64_t fewest = kept - saving.keep_last + 1;
  if (saving.keep_last > 1 && *system.free_bytes >= fewest * size)
    fix = "--checkpoint.keep_last 1, " + fix;
  outcome.add(writer, Severity::kBlocks,
              "the disk of the run folder is too small for its checkpoints: the run would end with "
              "exit code 73",
              str(system.folder, " has ", bytes(*system.free_bytes), " free; ", kept,
                  " checkpoints of ", bytes(size), " need ", bytes(kept * size)),
              fix);
  return outcome;
}

// dtrain opens data without locks, unless this variable says otherwise, which goes before what a
// program asks for.
void check_locks(Outcome& outcome, const Launch& launch, const RankFacts& rank) {
  if (!outcome.can_judge(!rank.data_file.empty(), "no data file is named")) return;
  if (!outcome.can_see(rank.data_lock != "unknown", launch, rank.node)) return;
  const std::string locking = rank.variable("HDF5_USE_FILE_LOCKING");
  const bool asked = locking == "TRUE" || locking == "1";
  const std::string type = rank.data_system.type.empty() ? "a file system" : rank.data_system.type;
  if (rank.data_lock == "fails") {
    outcome.add(rank, asked ? Severity::kBlocks : Severity::kNote,
                asked ? "HDF5 must lock files that cannot be locked, and so cannot open the data"
                      : "the data cannot be locked: dtrain does not need it, h5py and other "
                        "programs refuse to open them",
                str(rank.data_file, " is on ", type,
                    rank.data_system.network ? ", which comes over the network" : ""),
                "export HDF5_USE_FILE_LOCKING=FALSE");
  } else if (rank.data_lock == "held") {
    outcome.add(
        rank, asked ? Severity::kBlocks : Severity::kNote,
        "another program has the data open for writing: what is read may change during the run",
        rank.data_file, str("lsof ", rank.data_file, " shows it; close it, or train on a copy"));
  }
}

}  // namespace

Checks file_checks() {
  return {{"run folder", check_run_folder},
          {"disk space", check_disk_space},
          {"HDF5 locks", of_each_rank<check_locks>}};
}

}  // namespace dtrain::doctor

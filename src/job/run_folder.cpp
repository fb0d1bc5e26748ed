#include "job/run_folder.h"

#include <ctime>

#include "config/print.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "dist/object_collectives.h"
#include "job/find_checkpoint.h"
#include "os/file_descriptor.h"
#include "os/output_guard.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".lock";
constexpr const char* kCheckpoints = "checkpoints";

std::string generated_name(const config::Config& config) {
  const std::time_t now = Clock::Wall::to_time_t(real_clock().wall());
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return str(config.task, "-", text);
}

// What is at the place of the run; one that cannot be reached could not be written either.
fs::file_status status_of(const fs::path& run) {
  std::error_code code;
  const fs::file_status status = fs::status(run, code);
  if (!fs::status_known(status) && code) fail_to_write("use the run folder", run, code.value());
  return status;
}

bool is_folder(const fs::path& run) { return fs::is_directory(status_of(run)); }
bool run_is_there(const fs::path& run) { return fs::exists(status_of(run)); }

// The name becomes part of paths: it must not leave the folder of the runs.
void check_name(const std::string& name) {
  if (name.size() > 200 || name.starts_with("-") || name.starts_with(".") ||
      name.find_first_of(std::string("/\\\n\r\t\0", 6)) != std::string::npos) {
    throw ConfigError(str("run.name '", name,
                          "' cannot be a folder's name: use letters, digits, '.', '_' and '-', "
                          "with a letter, digit or '_' first"));
  }
}

// A link in the folder of a run can lead to a file that is not the run's, or to the checkpoints of
// another run, which this one would remove as its own older ones. Checkpoints on another disk
// are allowed.
void check_own_files(const fs::path& run) {
  for (const char* name : {"log.txt", "metrics.jsonl"}) check_own_file(run / name, Names::kMany);
  std::error_code unknown;
  if (fs::is_symlink(fs::symlink_status(run / kCheckpoints, unknown))) {
    protect_other_runs(fs::weakly_canonical(run / kCheckpoints, unknown));
  }
}

// Taken before its checkpoints are read: another process that trains the run may be writing one.
FileLock lock_run(const fs::path& run) {
  protect_other_runs(run);
  check_own_files(run);
  return FileLock(run / kLock, str("run ", run.string(), " is being trained"),
                  "wait for it to end, or give another --name");
}

// False: another run has the folder.
bool make_folder(RunPlan& plan, FileSystem& files) {
  if (plan.folder.has_parent_path()) files.create_folders(plan.folder.parent_path());
  std::error_code error;
  plan.made = fs::create_directory(plan.folder, error);
  if (error && !run_is_there(plan.folder))
    files.create_folders(plan.folder);  // throws with the reason
  if (plan.made) plan.lock = lock_run(plan.folder);
  return plan.made;
}

// Of --resume PATH, without a slash at its end.
fs::path resumed_path(const config::Config& config) {
  const fs::path given = fs::path(config.run.resume).lexically_normal();
  return given.has_filename() ? given : given.parent_path();
}

// --resume auto with a name alone, often in the wrong folder: the demo would be trained in place of
// the run.
ConfigError nothing_to_resume(const fs::path& run) {
  const bool there = is_folder(run);
  return ConfigError(str("--resume auto: ", fs::absolute(run).lexically_normal().string(),
                         there ? " has no checkpoint yet" : " does not exist",
                         ", and no task, data or config (", fs::absolute("dtrain.yaml").string(),
                         " is not there) says what to start: ",
                         there ? "" : "change to the folder of the run, give --run.folder, or ",
                         "name what to train with --task, --dataset or CONFIG.yaml"));
}

}  // namespace

std::string run_name(const config::Config& config) {
  std::string name = config.run.name;
  if (name.empty() && config.run.resume == "auto") {
    throw ConfigError(
        "--resume auto needs --name NAME: it continues that run, or starts it if it does not exist "
        "yet");
  }
  if (name.empty() && !config.run.resume.empty()) {
    const fs::path path = resumed_path(config);
    name = fs::absolute(is_checkpoint(path) ? fs::absolute(path).parent_path().parent_path() : path)
               .filename()
               .string();
  }
  if (!name.empty()) check_name(name);
  return name;
}

RunPlan plan_run(const config::Config& config, bool may_start) {
  const fs::path runs = config.run.folder;
  RunPlan plan;
  if (config.run.resume == "auto") {
    plan.name = run_name(config);
    if (is_folder(runs / plan.name)) plan.lock = lock_run(runs / plan.name);
    bool damaged = false;
    plan.checkpoint = newest_checkpoint(runs / plan.name, &damaged);
    if (!plan.checkpoint && damaged) {
      throw CheckpointError(str("run ", (runs / plan.name).string(),
                                " has checkpoints, but none that verifies: repair or remove them, "
                                "or start a new run under another --name"));
    }
    if (!plan.checkpoint && !may_start) throw nothing_to_resume(runs / plan.name);
  } else if (!config.run.resume.empty()) {
    const fs::path path = resumed_path(config);
    std::error_code code;
    if (!fs::is_directory(path, code)) {
      const bool missing =
          code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory;
      throw CheckpointError(str("--resume ", path.string(), ": ",
                                missing ? "there is no such folder"
                                : code  ? code.message()
                                       : "it is not a folder: give that of a run or a checkpoint"));
    }
    plan.name = run_name(config);
    if (is_folder(runs / plan.name)) plan.lock = lock_run(runs / plan.name);
    plan.checkpoint = is_checkpoint(path) ? path : newest_checkpoint(path);
    if (!plan.checkpoint) {
      throw CheckpointError(str("--resume ", path.string(),
                                ": neither a checkpoint nor a run folder with one that verifies"));
    }
    const auto newest = newest_checkpoint(runs / plan.name);
    plan.branches = !newest;
    if (newest && !fs::equivalent(*newest, *plan.checkpoint, code)) {
      throw OutputError(str("run ", plan.name, " has a newer checkpoint, ", newest->string(),
                            ": give another --name to branch off from ",
                            plan.checkpoint->string()));
    }
  }
  if (plan.name.empty()) plan.name = run_name(config);
  plan.generated = plan.name.empty();
  if (plan.generated) plan.name = generated_name(config);
  plan.folder = runs / plan.name;
  protect_other_runs(plan.folder);
  plan.existed = !plan.generated && run_is_there(plan.folder);
  if (plan.existed && config.run.resume.empty()) {
    throw OutputError(str("run ", plan.folder.string(),
                          " exists and is never overwritten: --resume auto continues it, another "
                          "--name starts a new one"));
  }
  return plan;
}

void share_name(dist::Communicator& host, const std::string& runs_folder, RunPlan& plan) {
  plan.name = dist::broadcast_object(host, plan.name);
  plan.folder = std::filesystem::path(runs_folder) / plan.name;
  plan.branches = dist::broadcast_object(host, plan.branches);
}

void claim_generated_name(RunPlan& plan, FileSystem& files) {
  const std::string name = plan.name;
  for (int number = 2; !make_folder(plan, files); ++number) {
    plan.name = str(name, "-", number);
    plan.folder.replace_filename(plan.name);
  }
}

void create_run(RunPlan& plan, const config::Config& config, const std::string& environment_json,
                FileSystem& files) {
  if (!plan.existed && !plan.made && !make_folder(plan, files)) {
    throw OutputError(str("run ", plan.folder.string(),
                          " was made by another process just now: give another --name"));
  }
  check_own_files(plan.folder);
  files.create_folders(plan.folder / kCheckpoints);
  log::open_file((plan.folder / "log.txt").string());
  write_atomically(files, plan.folder / "config.yaml", config::to_yaml(config));
  write_atomically(files, plan.folder / "environment.json", environment_json);
}

void check_run_folder(const RunPlan& plan) {
  if (plan.lock.is_at(plan.folder / kLock)) return;
  std::error_code unknown;
  const bool other = fs::exists(plan.folder, unknown);
  throw OutputError(str(
      "the run folder ", plan.folder.string(),
      other ? " is no longer the one of this job: it, or its .lock, was removed, moved or replaced"
            : " is gone: it was removed or moved while this job trained in it",
      ". Nothing more is saved: start the run again", other ? " under another --name" : ""));
}

}  // namespace dtrain::job

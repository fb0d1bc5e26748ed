#include "supervisor/launch_record.h"

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "monitoring/append_file.h"
#include "os/file_descriptor.h"
#include "os/net_address.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr size_t kMostPending = 1000;
constexpr const char* kLock = ".launch.lock";

bool is_folder(const fs::path& path) {
  std::error_code unknown;
  return fs::is_directory(path, unknown);
}

// A line of the record; `more` comes after the time and the name.
std::string event(const Clock& clock, const char* name, const Json& more) {
  Json json = {{"time", unix_seconds(clock)}, {"event", name}};
  json.update(more);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

LaunchRecord::LaunchRecord(fs::path run, bool may_exist, int64_t from_step, const Clock& clock)
    : run_(std::move(run)),
      may_exist_(may_exist),
      is_ours_(may_exist || !is_folder(run_)),
      clock_(clock),
      progress_(run_, from_step),
      began_(clock.now()) {}

LaunchRecord::~LaunchRecord() = default;

void LaunchRecord::launch_started(const std::vector<std::string>& command) {
  if (is_ours_ && is_folder(run_)) check_own_file(file_name());
  write(event(clock_, "launch_started", {{"host", host_name()}, {"command", command}}));
}

void LaunchRecord::job_started(const Placement& place) {
  job_began_ = clock_.now();
  job_runs_ = true;
  progress_.begin_job();
  totals_.ranks = place.ranks;
  Json job = {{"ranks", place.ranks}};
  if (!place.hosts.empty()) job["hosts"] = host_list(place.hosts, place.ranks);
  if (progress_.saved() >= 0) job["from_step"] = progress_.saved();
  write(event(clock_, "job_started", job));
}

void LaunchRecord::run_is_held(const fs::path& run) {
  is_held_ = true;
  if (!run_.empty()) return;
  run_ = run;
  progress_ = RunProgress(run_);  // all that is there is of this job
}

void LaunchRecord::look() {
  progress_.look();
  open_file();
}

void LaunchRecord::job_ended(EndCause cause, const JobEnd& end, std::optional<int> rank,
                             const std::string& text) {
  // It found the folder of another run, which may have ended since. (Or it could not write into its
  // own: nor can this.)
  if (!may_exist_ && !is_held_ && end.code == OutputError("").exit_code()) is_ours_ = false;
  settle();
  if (may_be_restarted(cause)) {
    progress_.verify();
  } else {
    progress_.look();
  }
  const bool done = cause == EndCause::kFinished;
  const int64_t lost = done ? 0 : progress_.unsaved_steps();
  totals_.useful_seconds +=
      progress_.useful_seconds(done ? RunProgress::Kept::kAll : RunProgress::Kept::kSaved);
  totals_.lost_steps += lost;
  totals_.ranks = 0;
  job_runs_ = false;
  Json job = {{"cause", name_of(cause)}, {"code", end.code}};
  if (rank) job["rank"] = *rank;
  job["text"] = text;
  if (progress_.trained() >= 0) job["step"] = progress_.trained();
  if (progress_.saved() >= 0) job["saved_step"] = progress_.saved();
  job["lost_steps"] = lost;
  job["seconds"] = seconds_between(job_began_, clock_.now());
  write(event(clock_, "job_ended", job));
}

void LaunchRecord::restart(EndCause cause) {
  ++totals_.restarts[std::string(name_of(cause))];
  write(event(clock_, "restart", {{"cause", name_of(cause)}}));
}

void LaunchRecord::host_lost(const std::string& host, const std::string& why) {
  ++totals_.hosts_lost;
  write(event(clock_, "host_lost", {{"host", host}, {"text", why}}));
}

void LaunchRecord::host_back(const std::string& host) {
  --totals_.hosts_lost;
  write(event(clock_, "host_back", {{"host", host}}));
}

void LaunchRecord::stop_asked(const std::string& signal) {
  write(event(clock_, "stop_asked", {{"signal", signal}}));
}

void LaunchRecord::launch_ended(int exit_code, const std::string& why) {
  settle();
  const LaunchTotals all = totals();
  write(event(clock_, "launch_ended",
              {{"code", exit_code},
               {"text", why},
               {"restarts", all.restarts},
               {"lost_steps", all.lost_steps},
               {"seconds", all.seconds},
               {"effective_training_time_ratio", all.effective_ratio}}));
}

LaunchTotals LaunchRecord::totals() const {
  LaunchTotals totals = totals_;
  totals.seconds = seconds_between(began_, clock_.now());
  if (job_runs_) totals.useful_seconds += progress_.useful_seconds(RunProgress::Kept::kAll);
  if (totals.seconds > 0) totals.effective_ratio = totals.useful_seconds / totals.seconds;
  return totals;
}

// A job that failed before it held the run belongs to the record all the same, unless another job
// trains the run.
void LaunchRecord::settle() {
  is_held_ = is_held_ || (is_folder(run_) && !is_locked(run_ / ".lock"));
}

void LaunchRecord::open_file() {
  if (!is_ours_ || file_ || !is_held_ || !is_folder(run_)) return;
  if (has_warned_ && is_locked(run_ / kLock)) return;  // without FileLock's patience: a job runs
  try {
    check_own_file(file_name());
    // Another launch may still wait to start the run again.
    lock_ = FileLock(run_ / kLock, str("another launch records ", run_.string()),
                     "this one writes its events if that one ends before it");
  } catch (const OutputError& error) {
    if (!std::exchange(has_warned_, true)) log::warning(error.what());
    return;
  }
  file_ = std::make_unique<monitoring::AppendFile>(file_name());
  for (const std::string& line : std::exchange(pending_, {})) file_->append(line);
}

// A record that cannot be written is no reason to stop a run: AppendFile warns.
void LaunchRecord::write(const std::string& line) {
  open_file();
  if (file_) {
    file_->append(line);
  } else if (pending_.size() < kMostPending) {
    pending_.push_back(line);
  }
}

}  // namespace dtrain::supervisor

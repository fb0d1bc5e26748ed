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

}  // namespace

class LaunchRecord::Event {
 public:
  Event(const Clock& clock, const char* name)
      : json_{{"time", unix_seconds(clock)}, {"event", name}} {}
  template <typename T>
  Event& set(const char* key, T&& value) {
    json_[key] = std::forward<T>(value);
    return *this;
  }
  std::string line() const {
    return json_.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  Json json_;
};

monitoring::LaunchNumbers LaunchTotals::numbers() const {
  monitoring::LaunchNumbers numbers{{}, lost_steps, effective_ratio(), ranks, hosts_lost};
  for (const auto& [cause, count] : restarts) numbers.restarts[std::string(name_of(cause))] = count;
  return numbers;
}

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
  write(Event(clock_, "launch_started").set("host", host_name()).set("command", command));
}

void LaunchRecord::job_started(const Placement& place) {
  job_began_ = clock_.now();
  job_runs_ = true;
  progress_.begin_job();
  totals_.ranks = place.ranks;
  Event event(clock_, "job_started");
  event.set("ranks", place.ranks);
  if (!place.hosts.empty()) event.set("hosts", host_list(place.hosts, place.ranks));
  if (progress_.saved() >= 0) event.set("from_step", progress_.saved());
  write(event);
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
  Event event(clock_, "job_ended");
  event.set("cause", name_of(cause)).set("code", end.code);
  if (rank) event.set("rank", *rank);
  event.set("text", text);
  if (progress_.trained() >= 0) event.set("step", progress_.trained());
  if (progress_.saved() >= 0) event.set("saved_step", progress_.saved());
  write(event.set("lost_steps", lost).set("seconds", seconds_between(job_began_, clock_.now())));
}

void LaunchRecord::restart(EndCause cause) {
  ++totals_.restarts[cause];
  write(Event(clock_, "restart").set("cause", name_of(cause)));
}

void LaunchRecord::host_lost(const std::string& host, const std::string& why) {
  ++totals_.hosts_lost;
  write(Event(clock_, "host_lost").set("host", host).set("text", why));
}

void LaunchRecord::host_back(const std::string& host) {
  --totals_.hosts_lost;
  write(Event(clock_, "host_back").set("host", host));
}

void LaunchRecord::stop_asked(const std::string& signal) {
  write(Event(clock_, "stop_asked").set("signal", signal));
}

void LaunchRecord::launch_ended(int exit_code, const std::string& why) {
  settle();
  const LaunchTotals all = totals();
  write(Event(clock_, "launch_ended")
            .set("code", exit_code)
            .set("text", why)
            .set("restarts", Json(all.numbers().restarts))
            .set("lost_steps", all.lost_steps)
            .set("seconds", all.seconds)
            .set("effective_training_time_ratio", all.effective_ratio()));
}

LaunchTotals LaunchRecord::totals() const {
  LaunchTotals totals = totals_;
  totals.seconds = seconds_between(began_, clock_.now());
  if (job_runs_) totals.useful_seconds += progress_.useful_seconds(RunProgress::Kept::kAll);
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
void LaunchRecord::write(const Event& event) {
  open_file();
  if (file_) {
    file_->append(event.line());
  } else if (pending_.size() < kMostPending) {
    pending_.push_back(event.line());
  }
}

}  // namespace dtrain::supervisor

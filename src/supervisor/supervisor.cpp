#include "supervisor/supervisor.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/error.h"
#include "core/log.h"
#include "dist/launcher.h"
#include "os/child_process.h"
#include "os/file_lock.h"
#include "supervisor/host_watch.h"
#include "supervisor/job_output.h"
#include "supervisor/mpirun_command.h"
#include "supervisor/session_folder.h"
#include "supervisor/stop_request.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

constexpr int kBetweenLooks = 50;      // ms
constexpr double kBetweenRecords = 1;  // s, between two looks into the run folder
constexpr double kLongestExit = 20;  // s, until the last rank of a job that mpirun has left is gone
// S, until the ranks of a killed mpirun have left their shared memory
constexpr double kLongestFarewell = 5;
// S, the same after a job of this launch, which may wait for a disk or a GPU
constexpr double kLongestHold = 300;

void print(std::string_view text, bool is_error) {
  std::FILE* file = is_error ? stderr : stdout;
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

class Supervisor {
 public:
  Supervisor(const LaunchOptions& options, const LaunchedRun& run, SignalQueue& signals,
             LaunchRecord& record, monitoring::LaunchMetrics& metrics, const Clock& clock)
      : options_(options),
        run_(run),
        name_(run.name),
        signals_(signals),
        record_(record),
        metrics_(metrics),
        clock_(clock),
        environment_(dist::environment()),
        mpirun_flags_(options.mpirun),
        hosts_(options.hosts, remote_shell(options.mpirun, environment_), environment_,
               options.host_timeout, clock),
        policy_(options.restarts, record.progress().saved()),
        request_(options.grace, clock) {
    hand_on(str(dist::kSupervised, "=1"));
    if (!run.variable.empty()) hand_on(run.variable);
  }

  int run() {
    std::optional<EndCause> restart;  // why this job is not the first
    while (true) {
      if (!wait_for_lock(restart ? kLongestHold : kLongestExit)) {
        const OutputError held(str("run ", folder().string(),
                                   " is being trained by another process", who_trains(),
                                   ": wait for it to end, or give another --name"));
        if (!restart) throw held;  // it is not ours
        return finish(held.exit_code(), held.what());
      }
      if (!restart) record_.launch_started(run_.command);
      const std::optional<Placement> place = find_place();
      if (request_.asked())
        return finish(kExitStoppedOnRequest, "stopped on request while no job ran");
      if (!place) return finish(CommError("").exit_code(), why_no_place_);
      const bool first = !restart;
      if (!first) record_.restart(*restart);
      int exit_code = 0;
      std::string why;
      try {
        const JobEnd end = run_job(*place, first);
        restart = cause_of(end);
        exit_code = exit_code_of(end);
      } catch (
          const Error& error) {  // no room for a session or a process, which later there may be
        if (first) return finish(error.exit_code(), error.what());
        why = str("the job could not be started: ", error.what());
        log::error(why);
        restart = EndCause::kCrash;
        exit_code = error.exit_code();
      }
      const RestartPolicy::Decision next = policy_.decide(*restart, record_.progress().saved());
      if (!next.restart || request_.asked())
        return finish(exit_code, why.empty() ? next.reason : str(why, ": ", next.reason));
      announce_restart(next.wait);
      wait(next.wait, [] { return false; });
    }
  }

 private:
  // A variable for all ranks.
  void hand_on(const std::string& variable) {
    environment_.push_back(variable);
    const std::string name = variable.substr(0, variable.find('='));
    for (const std::string& word : handed_on(name, options_.mpirun, environment_))
      mpirun_flags_.push_back(word);
  }

  // The ranks of an earlier job, of this supervisor or of one that was killed, may not be gone yet.
  // False: they still run after `seconds`, or another job trains the run.
  bool wait_for_lock(double seconds) {
    const std::filesystem::path lock = folder() / ".lock";
    if (name_.empty() || !record_.is_of_this_run() || !is_locked(lock)) return true;
    log::info(str("another process still trains ", folder().string(), who_trains(),
                  ": waiting up to ", seconds, " s for it"));
    wait(seconds, [&] { return !is_locked(lock); });
    return request_.asked() || !is_locked(lock);
  }

  std::filesystem::path folder() const { return run_.runs / name_; }

  std::string who_trains() const {
    const std::string process = holder_of(folder() / ".lock");
    return process.empty() ? "" : str(" (", process, ")");
  }

  std::optional<Placement> find_place() {
    if (options_.hosts.empty()) return Placement{options_.ranks, {}};
    hosts_.ask();
    wait(options_.host_timeout + HostWatch::kSecondLook, [&] { return hosts_.all_known(); });
    Placement place{0, hosts_.answering()};
    place.ranks = std::min(options_.ranks, slots_of(place.hosts));
    place.hosts = used_hosts(place.hosts, place.ranks);  // the others may come and go
    if (place.ranks >= options_.min_ranks) return place;
    why_no_place_ = str("the hosts that answer have room for ", place.ranks, " of ", options_.ranks,
                        " ranks, and --min-ranks is ", options_.min_ranks);
    return std::nullopt;
  }

  // A run that has a checkpoint has its global batch from there, also where that is another run's.
  std::vector<std::string> program_of(const Placement& place) const {
    const bool goes_on = !run_.resume.empty() && run_.resume.back() != "auto";
    const bool begins = record_.progress().saved() < 0 && !goes_on;
    const bool begins_smaller = place.ranks < options_.ranks && begins;
    std::vector<std::string> program =
        begins_smaller ? with_global_batch(run_.program, run_.global_batch) : run_.program;
    if (!name_.empty()) program.insert(program.end(), {"--name", name_});
    const std::vector<std::string> again = {"--resume", "auto"};
    const std::vector<std::string>& resume = begins_as_given() ? run_.resume : again;
    program.insert(program.end(), resume.begin(), resume.end());
    return program;
  }

  // The next job gets the user's own --resume. A folder that is of no job of this launch may be one
  // that the first job refuses: then no other job may take its run either. Until it has a
  // checkpoint of its own, a run that goes on from another one's begins there again.
  bool begins_as_given() const {
    return !has_run_ || (record_.progress().saved() < 0 && !run_.resume.empty());
  }

  bool folder_is_there() const {
    if (name_.empty()) return false;
    std::error_code unknown;  // then the job says what is wrong with it
    return std::filesystem::exists(folder(), unknown) || unknown;
  }

  JobEnd run_job(const Placement& place, bool first) {
    const bool was_there = folder_is_there();
    const SessionFolder session;
    JobOutput output(print);
    const auto take = [&](std::string_view bytes, bool is_error) { output.add(bytes, is_error); };
    ChildProcess job(mpirun_command(place, mpirun_flags_, program_of(place)),
                     mpirun_environment(environment_, session.path().string()));
    record_.job_started(place);
    JobEnd end;
    StopRequest because_of_host(/*grace_seconds=*/0, clock_);  // mpirun may wait for the lost host
    while (!job.look(kBetweenLooks, take)) {
      take_signals();
      // Before that the signal might end ranks that are not in main() yet
      if (wants_verdict_ && output.holds_run()) {
        job.signal(SIGUSR2);
        wants_verdict_ = false;
      }
      carry_out(request_, job, take);
      if (lost_one_of(place.hosts)) {
        end.host_lost = true;
        because_of_host.ask(SIGTERM);
      }
      carry_out(because_of_host, job, take);
      note_whether_held(output);
      if (it_is_time()) look_into_folder();
    }
    output.finish();
    note_whether_held(output);
    has_run_ = has_run_ || (!was_there && folder_is_there());
    record_.look();
    end.stop_sent = request_.asked();
    end.saved = end.stop_sent && record_.progress().saved() > saved_when_asked_;
    end.host_lost = end.host_lost || !output.mpirun().lost_host().empty();
    const bool was_killed = !WIFEXITED(job.status());
    end.code = was_killed ? 128 + WTERMSIG(job.status()) : WEXITSTATUS(job.status());
    end.refused =
        output.mpirun().was_refused() || (first && !was_killed && was_refused_at_once(end, output));
    if (was_killed) session.wait_until_unused(kLongestFarewell);
    report(end, output, job.status());
    return end;
  }

  void note_whether_held(const JobOutput& output) {
    if (!output.holds_run()) return;
    has_run_ = true;
    if (name_.empty()) name_ = std::filesystem::path(output.run_folder()).filename().string();
    record_.run_is_held(folder());
    metrics_.name_run(name_);
  }

  // mpirun alone ended the job, or the program cannot be run: for a reason that comes again. Of a
  // later job it may be that of a host which has begun again and has not mounted its file
  // systems yet.
  static bool was_refused_at_once(const JobEnd& end, const JobOutput& output) {
    constexpr int kNotExecutable = 126, kNotFound = 127;  // exit codes that shells use
    const bool is_of_rank =
        end.code == kExitStoppedOnRequest || end.code == CommError("").exit_code();
    if (is_of_rank || end.stop_sent || end.host_lost || output.mpirun().lacks_host()) return false;
    if (end.code == kNotExecutable || end.code == kNotFound) return true;
    return !output.has_begun() && !output.failed_rank();
  }

  void carry_out(StopRequest& request, ChildProcess& job, const ChildProcess::Take& take) {
    switch (request.due()) {
      case StopRequest::Due::kNothing:
        return;
      case StopRequest::Due::kSave:
        return job.signal(SIGUSR1);
      case StopRequest::Due::kEnd:
        if (&request == &request_) {
          log::warning(request.in_hurry() ? "a second Ctrl-C: the job is ended without a save"
                                          : str("the job has not saved and stopped within ",
                                                options_.grace, " s (--grace): it is ended"));
        }
        return job.signal(SIGTERM);
      case StopRequest::Due::kKill:
        return job.kill(take);
    }
  }

  // Whether one of the hosts that have ranks now is newly lost. Also notes those that are back, for
  // the next job.
  bool lost_one_of(const std::vector<Host>& used) {
    bool lost = false;
    for (const HostWatch::Change& change : hosts_.poll()) {
      if (change.answers) {
        log::info(str("host ", change.host, " answers again: the next job uses it"));
        record_.host_back(change.host);
        continue;
      }
      log::warning(str("host ", change.host, " does not answer (", change.why,
                       "): it is left out until it does; ", where_to_look(change.host)));
      record_.host_lost(change.host, change.why);
      lost_ = str("host ", change.host, " does not answer (", change.why,
                  "): ", where_to_look(change.host));
      lost = lost || std::ranges::find(used, change.host, &Host::name) != used.end();
    }
    return lost;
  }

  bool it_is_time() {
    if (seconds_between(looked_, clock_.now()) < kBetweenRecords) return false;
    looked_ = clock_.now();
    return true;
  }

  void look_into_folder() {
    record_.look();
    if (record_.is_open()) metrics_.announce();
    metrics_.set(record_.totals());
  }

  // The last lines again: those of ranks that only waited for the failed one are below its own.
  void report(const JobEnd& end, const JobOutput& output, int status) {
    const EndCause cause = cause_of(end);
    const std::optional<int> rank = output.failed_rank();
    std::string text = output.cause();
    if (WIFSIGNALED(status) && !end.host_lost)
      text = str("mpirun was ended by signal ", WTERMSIG(status));
    if (end.host_lost && output.mpirun().lost_host().empty()) text = lost_;
    if (text.empty() && cause != EndCause::kFinished) text = str("exit code ", end.code);
    record_.job_ended(cause, end, rank, text);
    look_into_folder();
    if (cause == EndCause::kStopped && end.code != kExitStoppedOnRequest && !end.saved) {
      log::info("stopped before there was anything to save: the same command starts it again");
    }
    if (cause == EndCause::kFinished || cause == EndCause::kStopped) return;
    if (rank && cause != EndCause::kPreempted) {
      const std::vector<std::string> lines = output.last_lines(*rank);
      log::plain(lines.empty() ? str("rank ", *rank, ", the first that failed, had printed nothing")
                               : str("the last lines of rank ", *rank, ", the first that failed:"));
      for (const std::string& line : lines) log::plain("  | " + line);
    }
    log::error(str("the job ended with code ", end.code, " (", cause, "): ", text));
  }

  void announce_restart(double seconds) {
    const int64_t saved = record_.progress().saved();
    std::string from = "its beginning: there is no checkpoint yet";
    if (!has_run_) {
      from = "the same command: no job has begun with the run yet";
    } else if (saved >= 0) {
      from = str("the checkpoint of step ", saved);
    } else if (run_.from_step >= 0) {
      from = str(run_.resume.back(), ", as at first: there is no checkpoint of its own yet");
    }
    log::info(str("restart ", policy_.restarts(), " of at most ", options_.restarts.most, " in ",
                  seconds, " s, from ", from));
  }

  // Until `enough`, a request to stop, or the end of `seconds`; signals and hosts are looked
  // at meanwhile.
  template <typename Enough>
  void wait(double seconds, const Enough& enough) {
    const Clock::Steady::time_point began = clock_.now();
    while (seconds_between(began, clock_.now()) < seconds && !request_.asked() && !enough()) {
      take_signals();
      lost_one_of({});
      metrics_.set(record_.totals());
      clock_.sleep_for(std::chrono::milliseconds(kBetweenLooks));
    }
  }

  void take_signals() {
    while (const std::optional<int> number = signals_.next()) {
      if (*number == SIGUSR2) {
        wants_verdict_ = true;
        continue;
      }
      if (!request_.asked()) {
        record_.look();
        saved_when_asked_ = record_.progress().saved();
        log::info(str("asked to stop (", ::strsignal(*number), ")",
                      record_.job_runs() ? ": the ranks save and exit" : ""));
        record_.stop_asked(::sigabbrev_np(*number));
      }
      request_.ask(*number);
    }
  }

  int finish(int code, const std::string& why) {
    record_.launch_ended(code, why);
    if (code == 0 || code == kExitStoppedOnRequest) metrics_.ended_well();
    if (why.empty()) return code;
    const std::string text = str("the launch ends: ", why);
    if (code == kExitStoppedOnRequest) {
      log::info(text);
    } else {
      log::error(text);
    }
    return code;
  }

  const LaunchOptions& options_;
  const LaunchedRun& run_;
  std::string name_;  // name of the run; "" until rank 0 has named it
  SignalQueue& signals_;
  LaunchRecord& record_;
  monitoring::LaunchMetrics& metrics_;
  const Clock& clock_;
  std::vector<std::string> environment_, mpirun_flags_;
  HostWatch hosts_;
  RestartPolicy policy_;
  StopRequest request_;
  Clock::Steady::time_point looked_{};
  int64_t saved_when_asked_ = -1;  // step of the newest checkpoint at the request to stop
  bool wants_verdict_ = false;     // SIGUSR2 came
  bool has_run_ = false;  // a job of this launch has made the folder of the run, or held it
  std::string why_no_place_;
  std::string lost_;  // the last host that fell silent, and why
};

}  // namespace

int supervise(const LaunchOptions& options, const LaunchedRun& run, SignalQueue& signals,
              LaunchRecord& record, monitoring::LaunchMetrics& metrics, const Clock& clock) {
  return Supervisor(options, run, signals, record, metrics, clock).run();
}

}  // namespace dtrain::supervisor

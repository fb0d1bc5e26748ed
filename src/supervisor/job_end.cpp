#include "supervisor/job_end.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <iterator>

#include "core/error.h"
#include "text/strings.h"

namespace dtrain::supervisor {
namespace {

constexpr int kExitByStopSignal = 128 + SIGUSR1;  // a rank that had not yet reached main()

// Of dtrain's own errors, all but those that restarts are for (core/error.h).
bool comes_again(int code) {
  return code >= UsageError("").exit_code() && code <= NumericsError("").exit_code() &&
         code != kExitStoppedOnRequest && code != CommError("").exit_code();
}

}  // namespace

EndCause cause_of(const JobEnd& end) {
  if (end.code == 0) return EndCause::kFinished;
  if (end.refused) return EndCause::kError;
  const bool has_stopped =
      end.code == kExitStoppedOnRequest || end.code == kExitByStopSignal || end.saved;
  if (end.stop_sent && has_stopped) return EndCause::kStopped;
  if (end.host_lost) return EndCause::kHostLost;
  if (end.code == kExitStoppedOnRequest) return EndCause::kPreempted;
  if (end.code == CommError("").exit_code()) return EndCause::kComm;
  return comes_again(end.code) ? EndCause::kError : EndCause::kCrash;
}

bool may_be_restarted(EndCause cause) {
  return std::ranges::find(kRestarted, cause) != std::end(kRestarted);
}

int exit_code_of(const JobEnd& end) {
  const EndCause cause = cause_of(end);
  if (cause == EndCause::kStopped) return kExitStoppedOnRequest;
  return cause == EndCause::kHostLost ? CommError("").exit_code()
                                      : end.code;  // that of mpirun says less
}

RestartPolicy::Decision RestartPolicy::decide(EndCause cause, int64_t newest_step) {
  if (newest_step > newest_step_) in_place_ = 0;
  newest_step_ = newest_step;  // may be an older one than before: what was damaged does not count
  if (!may_be_restarted(cause)) return {};
  if (restarts_ >= limits_.most) {
    return {.restart = false,
            .reason =
                str("it was restarted ", restarts_, " times, the most that --max-restarts allows")};
  }
  if (in_place_ >= limits_.most_in_place) {
    return {.restart = false,
            .reason = str("it ended ", in_place_ + 1, " times without a new checkpoint between")};
  }
  ++restarts_;
  const double wait = std::min(limits_.first_wait * std::exp2(in_place_), limits_.longest_wait);
  ++in_place_;
  return {.restart = true, .wait = wait, .reason = ""};
}

}  // namespace dtrain::supervisor

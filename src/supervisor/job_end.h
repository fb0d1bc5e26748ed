#pragma once

// Why a job has ended, from the exit code of mpirun and from what the supervisor had done to it,
// and whether it is started again. Pure.

#include <cstdint>
#include <string>

#include "text/named_enum.h"

namespace dtrain::supervisor {

enum class EndCause : uint8_t {
  kFinished,   // exit code 0
  kStopped,    // after a signal that the supervisor forwarded: the ranks saved (75), or had nothing
               // to save yet (138)
  kPreempted,  // 75 without such a signal: another process asked the ranks to stop
  kComm,       // 76: MPI or NCCL failed, or a rank died or hangs
  kCrash,      // ended by a signal, or with a code that is no error of dtrain
  kHostLost,   // a host no longer answered
  // an error that would come again: of the command, the configuration, the data, a device, the disk
  kError,
};
constexpr auto names_of(EndCause) {
  return names("finished", "stopped", "preempted", "comm", "crash", "host_lost", "error");
}

struct JobEnd {
  int code = 0;            // exit code of mpirun; 128 + the signal that ended it
  bool stop_sent = false;  // the supervisor had forwarded a request to stop
  bool saved = false;      // a checkpoint was made after that
  // A host no longer answered the supervisor, or mpirun lost its daemon there
  bool host_lost = false;
  // mpirun could not make sense of its command line, or run the program in the first job
  bool refused = false;
};

EndCause cause_of(const JobEnd&);
// Those after which a job may be started again.
inline constexpr EndCause kRestarted[] = {EndCause::kPreempted, EndCause::kComm, EndCause::kCrash,
                                          EndCause::kHostLost};
bool may_be_restarted(EndCause);

// The exit code of the supervisor for a job that is not started again.
int exit_code_of(const JobEnd&);

// Whether to start again, and when. A cause that comes again and again without progress is a fault
// that restarts do not cure: at most `most` restarts in all, and at most `most_in_place` without a
// new checkpoint between them.
struct RestartLimits {
  int most = 10, most_in_place = 3;
  // seconds; doubled from restart to restart without a new checkpoint
  double first_wait = 1, longest_wait = 30;
};

class RestartPolicy {
 public:
  // `newest_step`: of the newest checkpoint before the first job; -1: there is none.
  RestartPolicy(const RestartLimits& limits, int64_t newest_step)
      : limits_(limits), newest_step_(newest_step) {}

  struct Decision {
    bool restart = false;
    double wait = 0;     // seconds
    std::string reason;  // why not; "" where the cause alone says it
  };
  // To be called at each end of the job, with the step of the newest checkpoint then.
  Decision decide(EndCause, int64_t newest_step);
  int restarts() const { return restarts_; }

 private:
  RestartLimits limits_;
  int restarts_ = 0, in_place_ = 0;
  int64_t newest_step_;
};

}  // namespace dtrain::supervisor

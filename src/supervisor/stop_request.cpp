#include "supervisor/stop_request.h"

#include <csignal>

namespace dtrain::supervisor {

void StopRequest::ask(int signal) {
  if (signal == SIGINT && ++interrupts_ == 2) in_hurry_ = true;
  if (!asked()) since_ = clock_.now();
}

StopRequest::Due StopRequest::due() {
  if (!asked()) return Due::kNothing;
  const Time now = clock_.now();
  if (ended_) return seconds_between(*ended_, now) >= kLastGrace ? Due::kKill : Due::kNothing;
  if (in_hurry_ || seconds_between(*since_, now) >= grace_) {
    ended_ = now;
    return Due::kEnd;
  }
  if (sent_ && seconds_between(*sent_, now) < kBetweenSignals) return Due::kNothing;
  sent_ = now;
  return Due::kSave;
}

}  // namespace dtrain::supervisor

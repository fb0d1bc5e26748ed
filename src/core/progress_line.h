#pragma once

// The progress of a command, with its rate and the time left: on a terminal a bar that is rewritten
// in place, else a plain line every few seconds. Without colors. The texts are pure functions. The
// work begins with the constructor.

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/parallel.h"

namespace dtrain {

bool stderr_is_terminal();
int terminal_columns();  // width of stderr's terminal; 100 if the system does not say

// Thread-safety: none; the process has one at a time.
class ProgressLine {
 public:
  // When the last plain line of a stage is printed: always, or only for work that took long enough
  // for a line before.
  enum class Last { kAlways, kOfLongWork };

  // Borrows the clock
  explicit ProgressLine(Last, bool terminal = stderr_is_terminal(), const Clock& = real_clock());
  ~ProgressLine();  // the next output begins on a new line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const Progress&);

 private:
  void begin_stage(const Progress&, Clock::Steady::time_point now);

  const Last last_line_;
  const bool terminal_;
  const Clock& clock_;
  std::string stage_;
  int64_t done_ = 0;
  bool shown_ = false;                  // something of this stage
  Clock::Steady::time_point reported_;  // the last report; at first the beginning of the work
  Clock::Steady::time_point start_, shown_at_;  // when the stage began; when it was last shown
};

// "reading 1 200 of 4 000 (30.0 %), 812.3 samples/s, 3.4s left". What was resumed does not count
// for the rate. `seconds`: since the stage began. Of time: "batch 1m40s of 10m00s (16.7 %), 9.0
// trials/min, at most 8m20s left".
std::string progress_text(const Progress&, double seconds);

// "reading [#####------------] 1 200/4 000  30 %  812.3 samples/s  eta 3.4s", cut to
// `columns` bytes.
std::string progress_bar(const Progress&, double seconds, int columns);

// HEAD [####----] TAIL, cut to `columns` bytes; without the bar where there is no room for it.
std::string bar_line(const std::string& head, int64_t done, int64_t total, const std::string& tail,
                     int columns);

}  // namespace dtrain

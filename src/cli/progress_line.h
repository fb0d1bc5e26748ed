#pragma once

// The progress of a long command on stderr: count, share, rate and time left of each of its stages. On a terminal one
// line that is rewritten, else a plain line every few seconds (the last always).

#include <chrono>
#include <cstdint>
#include <string>

#include "core/parallel.h"

namespace dtrain::cli {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // what is said next begins a line of its own
  ProgressLine(const ProgressLine&) = delete;
  void show(const Progress&);

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool open_ = false;  // the line is to be rewritten
  std::string stage_;
  Clock::time_point start_, last_;  // of the stage
};

// "reading 1 200 of 4 000 (30.0 %), 812.3 samples/s, 3.4s left". What was resumed does not count for the rate.
// `seconds`: since the stage began.
std::string progress_text(const Progress&, double seconds);

}  // namespace dtrain::cli

#pragma once

// The progress of a long command on stderr: count, share, rate and time left of each of its stages. On a terminal one
// line that is rewritten, else a plain line every few seconds (the last always).

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "core/parallel.h"

namespace dtrain::cli {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // ends the line
  ProgressLine(const ProgressLine&) = delete;
  void show(const Progress&);

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool open_ = false;  // the line will be rewritten
  std::string stage_;
  Clock::time_point start_, last_;  // of the stage
};

// "reading 1 200 of 4 000 (30.0 %), 812.3 samples/s, 3.4s left". What was resumed does not count for the rate.
// `seconds`: since the stage began.
std::string progress_text(const Progress&, double seconds);

// Runs long work without checkpoints, such as a conversion, and shows the progress that it reports. After Ctrl-C or
// SIGTERM the next report throws, so that `work` ends early and removes what it began; then the result is false. A
// second Ctrl-C ends the process at once.
bool run_interruptible(const std::function<void(const ReportProgress&)>& work);

}  // namespace dtrain::cli

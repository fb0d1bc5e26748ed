#pragma once

// The progress of a long command on stderr: count, share, rate and time left. On a terminal one line that is rewritten,
// else a plain line every few seconds (the last always).

#include <chrono>
#include <cstdint>
#include <string>

#include "data/convert/progress.h"

namespace dtrain::cli {

class ProgressLine {
 public:
  explicit ProgressLine(std::string what);  // "reading", "drawing"
  void show(const data::Progress&);
  data::ReportProgress reporter() {  // show(); not to be called after this object's end
    return [this](const data::Progress& progress) { show(progress); };
  }

 private:
  std::string what_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_, last_;
};

// "reading 1 200 of 4 000 (30.0 %), 812.3 samples/s, 3.4s left". What was resumed does not count for the rate.
std::string progress_text(const std::string& what, const data::Progress&, double seconds);

}  // namespace dtrain::cli

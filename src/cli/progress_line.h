#pragma once

// The progress of a long command on stderr: count, share, rate and time left. On a terminal one line that is rewritten,
// else a plain line every few seconds (the last always).

#include <chrono>
#include <cstdint>
#include <string>

namespace dtrain::cli {

class ProgressLine {
 public:
  explicit ProgressLine(std::string what);  // "reading", "drawing"
  // `resumed` of `done` were there before: they do not count for the rate.
  void show(int64_t done, int64_t total, int64_t resumed = 0);

 private:
  std::string what_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_, last_;
};

// "reading 1 200 of 4 000 (30.0 %), 812.3 samples/s, 3.4s left"
std::string progress_text(const std::string& what, int64_t done, int64_t total, int64_t resumed, double seconds);

}  // namespace dtrain::cli

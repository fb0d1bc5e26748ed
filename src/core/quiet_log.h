#pragma once

// Keeps the log short while work is repeated that says the same each time.
// Thread-safety: any thread may make one; it holds for all threads.

namespace dtrain::log {

// While one lives, info() and plain() of core/log.h print nothing, on the terminal and in the file.
// Warnings and errors do as always.
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

}  // namespace dtrain::log

#pragma once

// Takes the lines of a metrics.jsonl one by one, in the order of the file, and adds what they say
// to RunRecords. Memory is bounded however long the run was: neighboring windows of steps are
// joined when there are too many.
// Thread-safety: one thread.

#include <cstdint>
#include <string_view>

#include "report/run_records.h"

namespace dtrain::report {

class RecordAdder {
 public:
  explicit RecordAdder(RunRecords& records) : records_(records) {}  // borrows them
  void line(std::string_view text, bool whole);  // `whole`: it ended with a newline
  void skipped() { begins_ = true; }             // lines are missing before the next one
  void finish(bool growing);                     // names in `gaps` what was left out
  const StateRecord& last_state() const { return last_state_; }

 private:
  void add(StepWindow);
  void add(RecordedEvaluation);

  RunRecords& records_;
  StateRecord last_state_;
  bool begins_ = true;  // nothing says how many steps the next window has
  int64_t lines_ = 0, damaged_ = 0, first_damaged_ = 0, cut_ = 0, out_of_order_ = 0, unknown_ = 0;
};

// The records of a metrics.jsonl from its text, for tests and the fuzzer. `growing`: a cut last
// line is expected.
void add_records(RunRecords&, std::string_view text, bool growing = false);

}  // namespace dtrain::report

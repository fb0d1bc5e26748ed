#pragma once

// What a job prints, line by line: mpirun names the rank of each line with --tag-output, this class
// takes the names off again, and the lines that ranks write for it (dist/supervisor_lines.h), so
// that people see what they would see without a supervisor. It keeps what a failure is explained
// with: the last lines of each rank, the first failure, and what mpirun says.
//
// Thread-safety: none.

#include <compare>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dist/supervisor_lines.h"
#include "supervisor/mpirun_words.h"

namespace dtrain::supervisor {

class JobOutput {
 public:
  // `write(text, is_error)`: a line with its newline, or a part that ends by a carriage return (a
  // progress bar).
  explicit JobOutput(std::function<void(std::string_view text, bool is_error)> write)
      : write_(std::move(write)) {}

  // Bytes of mpirun's standard output or standard error, cut anywhere.
  void add(std::string_view bytes, bool is_error);
  // The output has ended: what has no newline is a line too.
  void finish();

  // The first rank that failed: one that a signal ended, by mpirun's words, or that of the first
  // failure. A failure that is a rank's own counts before those of ranks that miss it.
  std::optional<int> failed_rank() const;
  // Why the job ended, in one line: by the words of that rank if it could say any, else by
  // mpirun's. "": no words.
  std::string cause() const;
  std::vector<std::string> last_lines(int rank) const;  // at most kLastLines
  // Some rank has printed a line: all are beyond the beginning of main().
  bool has_begun() const { return !last_.empty(); }
  // Rank 0 has named the folder of the run, which it then holds.
  bool holds_run() const { return !run_folder_.empty(); }
  const std::string& run_folder() const { return run_folder_; }
  const MpirunWords& mpirun() const { return mpirun_; }

  static constexpr size_t kLastLines = 10;

 private:
  struct Source {
    int rank = kNoRank;
    bool is_error = false;
    auto operator<=>(const Source&) const = default;
  };
  void take(std::string_view part, bool is_error, char end);
  void learn(const dist::SupervisorLine&, int rank);
  bool explains(const dist::FailureRecord&);
  bool ended_silently() const;

  std::function<void(std::string_view, bool)> write_;
  struct Received {
    std::string text;  // that has no end yet
    Source source;     // where text without a tag comes from
  };
  // The two streams of mpirun
  Received received_[2] = {{"", {kNoRank, false}}, {"", {kNoRank, true}}};
  std::map<Source, std::string> partial_;  // the beginning of a line
  std::map<int, std::deque<std::string>> last_;
  std::optional<dist::FailureRecord> failure_;  // that explains the end best
  std::string run_folder_;
  MpirunWords mpirun_;
};

}  // namespace dtrain::supervisor

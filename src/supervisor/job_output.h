#pragma once

// What a job prints, line by line: mpirun names the rank of each line with --tag-output, this class
// takes the names off again, so that people see what they would see without a supervisor, and keeps
// what a failure is explained with: the last lines of each rank, the first error, and what mpirun
// says of the rank that ended the job.
//
// Thread-safety: none.

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::supervisor {

inline constexpr int kNoRank = -1;  // a line of mpirun itself

struct TaggedLine {
  int rank = kNoRank;
  bool is_error = false;  // of the rank's standard error
  std::string_view text;
};
// "[1,2]<stderr>:text" of Open MPI 4 and 5. A line without a tag is mpirun's own. Pure.
TaggedLine parse_tagged(std::string_view line);

class JobOutput {
 public:
  // `write(text, is_error)`: a line with its newline, or a part that ends by a carriage return (a
  // progress bar).
  explicit JobOutput(std::function<void(std::string_view text, bool is_error)> write)
      : write_(std::move(write)) {}

  // Bytes of mpirun's standard output or standard error, cut anywhere.
  void add(std::string_view bytes, bool is_error);
  // No more will come: what has no newline is a line too.
  void finish();

  // The first rank that failed: one that a signal ended, by mpirun's words, or that of which the
  // first error is. An error that is a rank's own counts before those of ranks that miss it.
  std::optional<int> failed_rank() const;
  // Why the job ended, in one line: by the words of that rank if it could say any, else by
  // mpirun's. "": no words.
  std::string cause() const;
  std::vector<std::string> last_lines(int rank) const;  // at most kLastLines
  // Some rank has printed a line: all are beyond the beginning of main().
  bool has_begun() const { return !last_.empty(); }
  // Rank 0 has named its run folder, which it then holds.
  bool holds_run() const { return !run_folder_.empty(); }
  const std::string& run_folder() const { return run_folder_; }
  // Of the daemon that mpirun lost; "": none.
  const std::string& lost_host() const { return lost_host_; }
  // mpirun could not start its daemon on some host, which may be different later.
  bool lacks_host() const { return lacks_host_; }
  // mpirun refused its command line, found no program to start, or has its own limit of time: no
  // restart helps.
  bool was_refused() const { return refused_; }

  static constexpr size_t kLastLines = 10;

 private:
  struct Source {
    int rank = kNoRank;
    bool is_error = false;
    auto operator<=>(const Source&) const = default;
  };
  void take(std::string_view part, bool is_error, char end);
  void learn(std::string_view line, const Source&);
  bool take_error(std::string_view text, int rank);
  void listen_to_mpirun(std::string_view line);
  void take_first_words(std::string_view line);
  bool ended_silently() const;

  std::function<void(std::string_view, bool)> write_;
  struct Received {
    std::string text;  // that has no end yet
    Source source;     // of what comes without a tag
  };
  Received received_[2] = {{"", {kNoRank, false}},
                           {"", {kNoRank, true}}};  // the two streams of mpirun
  std::map<Source, std::string> partial_;           // the beginning of a line
  std::map<int, std::deque<std::string>> last_;
  struct Error {
    int rank = 0;  // that failed
    // Its own reason, what another rank says of it, or that it does not reach the others. The first
    // explains the rest.
    enum Kind : uint8_t { kOwn, kOfOther, kNoOthers } kind = kOwn;
    std::string text;
  };
  std::optional<Error> first_error_;
  // The rank that mpirun says was the first to end.
  struct Ended {
    int rank = 0;
    std::string where;  // " on host1"; "" if mpirun does not say it
    std::string how;    // "ended by signal 9 (Killed)", "exit code 76"
    bool by_signal = false;
  };
  std::optional<Ended> ended_;
  bool refused_ = false, lacks_host_ = false;
  std::string run_folder_;
  int exited_rank_ = kNoRank;  // of "Process name", until its "Exit code" comes
  std::string lost_host_;      // of the daemon that mpirun lost
  std::string first_words_;    // of mpirun
  bool first_words_end_ = false;
};

}  // namespace dtrain::supervisor

#pragma once

// What mpirun says in its own words, and with it the remote shell, setpriv and the kernel: this
// file alone of the supervisor reads prose. It is that of Open MPI 4.1, not of dtrain, whose ranks
// write dist/supervisor_lines.h. Thread-safety: none.

#include <optional>
#include <string>
#include <string_view>

namespace dtrain::supervisor {

inline constexpr int kNoRank = -1;  // a line of mpirun itself

struct TaggedLine {
  int rank = kNoRank;
  bool is_error = false;  // from the rank's standard error
  std::string_view text;
};
// "[1,2]<stderr>:text" of Open MPI 4 and 5. A line without a tag is mpirun's own. Pure.
TaggedLine parse_tagged(std::string_view line);

class MpirunWords {
 public:
  // A line that no rank has printed.
  void add(std::string_view line);
  // Whether people need not see the line.
  static bool is_no_news(std::string_view line);

  // The rank that mpirun says was the first to end.
  struct Ended {
    int rank = 0;
    std::string text;  // "rank 1 on host1: ended by signal 9 (Killed)", "rank 1: exit code 76"
    bool by_signal = false;
  };
  const std::optional<Ended>& ended() const { return ended_; }
  // The host of the daemon that mpirun lost; "": none.
  const std::string& lost_host() const { return lost_host_; }
  // mpirun could not start its daemon on some host, which may be different later.
  bool lacks_host() const { return lacks_host_; }
  // mpirun refused its command line, found no program to start, or has its own limit of time: no
  // restart helps.
  bool was_refused() const { return refused_; }
  // Why no rank could do its work, in one line; "": no words.
  std::string cause() const;

 private:
  void take_first_words(std::string_view line);
  void take_end(std::string_view line);

  std::optional<Ended> ended_;
  int exited_rank_ = kNoRank;  // the rank in "Process name", until its "Exit code" comes
  std::string lost_host_;
  bool refused_ = false, lacks_host_ = false;
  std::string first_words_;
  bool first_words_end_ = false;
};

}  // namespace dtrain::supervisor

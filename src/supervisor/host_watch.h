#pragma once

// Which hosts of a launch answer. On each host but this one a small shell loop prints a line each
// second, over the remote shell by which mpirun starts its daemons there: one login for the whole
// launch. A host whose lines stay away for a time is lost; it is back when they come again.
// Thread-safety: none; poll() is to be called often.

#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "os/child_process.h"
#include "supervisor/hosts.h"

namespace dtrain::supervisor {

class HostWatch {
 public:
  // `shell`: as of remote_shell(). `timeout_seconds`: without a line, after which a host is lost.
  HostWatch(std::vector<Host> hosts, std::vector<std::string> shell,
            std::vector<std::string> environment, double timeout_seconds, const Clock&);
  ~HostWatch();

  struct Change {
    std::string host;
    bool answers = false;
    std::string why;  // it does not: the last words of the remote shell, or "no answer for 30 s"
  };
  // Reads what has come, without waiting. What has changed since the last call: a host is lost, or
  // is back.
  std::vector<Change> poll();

  // A question to all: from now on each host counts as unsure until its next line.
  void ask();
  // Whether each host has answered since ask(), or has been given up. One that was lost before
  // ask() has kSecondLook seconds.
  bool all_known() const;
  std::vector<Host> answering() const;  // that are not lost, in their order

  static constexpr double kSecondLook = 3, kBetweenLogins = 1;  // seconds

 private:
  struct Watched;
  void look(Watched&);

  std::vector<std::string> shell_, environment_;
  double timeout_;
  const Clock& clock_;
  Clock::Steady::time_point asked_;
  std::vector<std::unique_ptr<Watched>> watched_;
};

}  // namespace dtrain::supervisor

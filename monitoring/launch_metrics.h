#pragma once

// The metrics of `dtrain launch`: an endpoint of its own, which lives on while jobs come and go,
// and the file by which Prometheus finds it, RUNS/targets/NAME.launch.json. The file stays where
// the launch did not end well, as that of a run does. A supervisor that cannot serve them goes on
// without, with a warning. Thread-safety: none.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"

namespace dtrain::monitoring {

struct LaunchNumbers {
  std::map<std::string, int> restarts;  // key: cause; value: number of restarts
  int64_t lost_steps = 0;
  double effective_ratio = 0;  // share of the wall time that trained
  int ranks = 0;               // that run now
  int hosts_lost = 0;
};

class LaunchMetrics {
 public:
  // Serves on config.bind and `port`; 0 is any free one. `name`: of the run, without which there
  // are no metrics yet. `causes`: of restarts, which are 0 until they occur.
  // ConfigError for a password file that cannot be used.
  LaunchMetrics(const config::Metrics& config, int64_t port, const std::filesystem::path& runs,
                const std::string& name, const std::vector<std::string>& causes);
  ~LaunchMetrics();
  LaunchMetrics(const LaunchMetrics&) = delete;
  LaunchMetrics& operator=(const LaunchMetrics&) = delete;

  void name_run(const std::string& name);  // unless it has a name
  void set(const LaunchNumbers&);
  void announce();    // writes the targets file, once, for a job that holds the run
  void ended_well();  // removes it
  const std::string& address() const;  // "": nothing is served

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain::monitoring

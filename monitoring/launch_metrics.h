#pragma once

// The metrics of `dtrain launch`: an endpoint of its own, which lives on while jobs come and go,
// and the file by which Prometheus finds it, RUNS/targets/NAME.launch.json. The file stays where
// the launch did not end well, as that of a run does. A supervisor that cannot serve them goes on
// without, with a warning. Thread-safety: none.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "monitoring/endpoint.h"
#include "monitoring/targets_file.h"

namespace prometheus {
class Counter;
class Gauge;
}  // namespace prometheus

namespace dtrain::monitoring {

struct LaunchNumbers {
  std::map<std::string, int> restarts;  // key: cause; value: number of restarts
  int64_t lost_steps = 0;               // trained, and trained again after a restart
  // Effective training time ratio, as Meta's study of large clusters defines it (arXiv 2410.21680):
  // the share of the wall time that trained.
  double effective_ratio = 0;
  int ranks = 0;  // that run now; 0 between two jobs
  int hosts_lost = 0;
};

class LaunchMetrics {
 public:
  // Serves on config.bind and `port`; 0 is any free one. `name`: of the run, without which there
  // are no metrics yet. `causes`: of restarts, which are 0 until they occur. ConfigError for a
  // password file that cannot be used.
  LaunchMetrics(const config::Metrics& config, int64_t port, std::filesystem::path runs,
                const std::string& name, std::vector<std::string> causes);

  void name_run(const std::string& name);  // unless it has a name
  void set(const LaunchNumbers&);
  void announce();    // writes the targets file, once, for a job that holds the run
  void ended_well();  // removes it
  const std::string& address() const { return endpoint_.address; }  // "": nothing is served

 private:
  std::filesystem::path runs_;
  std::vector<std::string> causes_;
  std::string name_;
  std::shared_ptr<prometheus::Registry> registry_;
  std::map<std::string, prometheus::Counter*> restarts_;
  prometheus::Counter* lost_steps_ = nullptr;
  prometheus::Gauge *ratio_ = nullptr, *ranks_ = nullptr, *hosts_lost_ = nullptr;
  Endpoint endpoint_;
  std::optional<TargetsFile> targets_;
  bool announced_ = false;
};

}  // namespace dtrain::monitoring

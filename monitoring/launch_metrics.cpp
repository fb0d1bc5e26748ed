#include "monitoring/launch_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "monitoring/series.h"
#include "os/net_address.h"
#include "text/strings.h"

namespace dtrain::monitoring {

LaunchMetrics::LaunchMetrics(const config::Metrics& config, int64_t port,
                             std::filesystem::path runs, const std::string& name,
                             std::vector<std::string> causes)
    : runs_(std::move(runs)),
      causes_(std::move(causes)),
      registry_(std::make_shared<prometheus::Registry>()) {
  name_run(name);
  if (!config.enabled) return;
  endpoint_ = open_endpoint(config.bind, port, {metrics_page(registry_)}, auth_of(config),
                            host_name(), "launch", "--metrics-port");
}

void LaunchMetrics::name_run(const std::string& name) {
  if (!name_.empty() || name.empty()) return;
  name_ = name;
  const SeriesFactory series(registry_, {{"job_id", name_}, {"node", host_name()}});
  for (const std::string& cause : causes_) {
    restarts_[cause] = &series.counter("dtrain_supervisor_restarts_total", {{"cause", cause}});
  }
  lost_steps_ = &series.counter("dtrain_supervisor_lost_steps_total");
  ratio_ = &series.gauge("dtrain_supervisor_effective_training_time_ratio");
  ranks_ = &series.gauge("dtrain_supervisor_ranks");
  hosts_lost_ = &series.gauge("dtrain_supervisor_hosts_lost");
}

void LaunchMetrics::set(const LaunchNumbers& numbers) {
  if (name_.empty()) return;
  for (const auto& [cause, count] : numbers.restarts) {
    if (const auto found = restarts_.find(cause); found != restarts_.end())
      raise_to(*found->second, count);
  }
  raise_to(*lost_steps_, static_cast<double>(numbers.lost_steps));
  ratio_->Set(numbers.effective_ratio);
  ranks_->Set(numbers.ranks);
  hosts_lost_->Set(numbers.hosts_lost);
}

void LaunchMetrics::announce() {
  if (announced_ || endpoint_.address.empty()) return;
  announced_ = true;
  try {  // the folder may be another user's, and the run does not need the file
    targets_.emplace(runs_, name_,
                     std::vector<TargetsFile::Target>{{endpoint_.address, host_name(), {}}},
                     ".launch");
  } catch (const Error& problem) {
    log::warning(str("Prometheus may not find the metrics of this launch: ", problem.what()));
  }
}

void LaunchMetrics::ended_well() {
  if (targets_) targets_->remove();
}

}  // namespace dtrain::monitoring

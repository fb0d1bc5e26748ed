#include "monitoring/launch_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <map>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "monitoring/endpoint.h"
#include "monitoring/series.h"
#include "monitoring/targets_file.h"
#include "os/net_address.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using prometheus::Counter;
using prometheus::Gauge;

}  // namespace

class LaunchMetrics::Impl {
 public:
  Impl(const config::Metrics& config, int64_t port, std::filesystem::path runs,
       const std::string& name, std::vector<std::string> causes)
      : runs_(std::move(runs)), causes_(std::move(causes)) {
    name_run(name);
    if (!config.enabled) return;
    endpoint_ = open_endpoint(config.bind, port, {metrics_page(registry_)}, auth_of(config),
                              host_name(), "launch", "--metrics-port");
  }

  void name_run(const std::string& name) {
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

  void set(const LaunchNumbers& numbers) {
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

  void announce() {
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

  void ended_well() {
    if (targets_) targets_->remove();
  }

  const std::string& address() const { return endpoint_.address; }

 private:
  std::filesystem::path runs_;
  std::vector<std::string> causes_;
  std::string name_;
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::map<std::string, Counter*> restarts_;
  Counter* lost_steps_ = nullptr;
  Gauge *ratio_ = nullptr, *ranks_ = nullptr, *hosts_lost_ = nullptr;
  Endpoint endpoint_;
  std::optional<TargetsFile> targets_;
  bool announced_ = false;
};

LaunchMetrics::LaunchMetrics(const config::Metrics& config, int64_t port,
                             const std::filesystem::path& runs, const std::string& name,
                             const std::vector<std::string>& causes)
    : impl_(std::make_unique<Impl>(config, port, runs, name, causes)) {}
LaunchMetrics::~LaunchMetrics() = default;

void LaunchMetrics::name_run(const std::string& name) { impl_->name_run(name); }
void LaunchMetrics::set(const LaunchNumbers& numbers) { impl_->set(numbers); }
void LaunchMetrics::announce() { impl_->announce(); }
void LaunchMetrics::ended_well() { impl_->ended_well(); }
const std::string& LaunchMetrics::address() const { return impl_->address(); }

}  // namespace dtrain::monitoring

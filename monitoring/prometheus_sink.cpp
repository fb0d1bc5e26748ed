#include "monitoring/prometheus_sink.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "monitoring/disk_metrics.h"
#include "monitoring/endpoint.h"
#include "monitoring/gpu_metrics.h"
#include "monitoring/series.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using Labels = SeriesFactory::Labels;
using measure::Phase;
using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

static_assert(Phase::kCheckpoint < Phase::kEval &&
              static_cast<size_t>(Phase::kEval) + 1 == measure::kPhases);

// Seconds.
const Histogram::BucketBoundaries kStepBuckets = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                                                  0.5,   1,     2,     5,    10,   20,   60};

class RankSeries : public PrometheusSink {
 public:
  RankSeries(const config::Metrics& metrics, const Identity& id, std::unique_ptr<GpuReader> reader,
             const std::optional<BasicAuth>& auth, std::vector<Page> pages)
      : global_(id.rank == 0),
        // One rank exports what several measure, so that a sum over ranks counts it once. Those of
        // sensors have labels of their own (gpu_metrics.h).
        exports_([first_on_host = id.local_rank == 0,
                  global = global_](const measure::QuantityRow& row) {
          if (row.scope == measure::QuantityScope::kHost) return first_on_host;
          if (row.scope == measure::QuantityScope::kRun) return global;
          return row.scope != measure::QuantityScope::kSensor;
        }),
        series_(registry_, {{"job_id", id.job_id},
                            {"rank", str(id.rank)},
                            {"local_rank", str(id.local_rank)},
                            {"node", id.node}}) {
    series_.gauge("dtrain_build_info", id.build).Set(1);
    if (global_) series_.gauge("dtrain_job_info", id.job).Set(1);
    make_series();
    series_.gauge("dtrain_gpus").Set(reader ? 1 : 0);
    if (reader) {
      auto gpu = std::make_unique<GpuMetrics>(series_, id.gpu_pci_bus_id, *reader);
      gpu_ = std::make_unique<GpuPoller>(std::move(reader), std::move(gpu), metrics.gpu_interval);
    }
    if (global_ && !id.run_folder.empty())
      disk_.emplace(series_, [folder = id.run_folder] { return disk_space(folder); });
    state(LiveState::kStarting);
    const int64_t port = metrics.port == 0 ? 0 : metrics.port + id.local_rank;
    pages.push_back(metrics_page(registry_));
    endpoint_ = open_endpoint(metrics.bind, port, pages, auth, id.node, str("rank ", id.rank));
    const bool local = metrics.bind.starts_with("127.") || metrics.bind == "::1";
    if (endpoint_.server && !local && !auth) {
      log::info(str(
          "the metrics, and the page of the run with its log, are served on ", metrics.bind,
          " without a password: keep the port inside your network, or set --metrics.auth_file"));
    }
  }

  std::string address() const override { return endpoint_.address; }
  measure::Values take_gpu_use() override { return gpu_ ? gpu_->take() : measure::Values(); }

  void restore(int64_t steps, int64_t samples) override {
    raise_to(*steps_, static_cast<double>(steps));
    last_phases_step_ = last_own_step_ = steps;
    if (global_) raise_to(*samples_, static_cast<double>(samples));
  }

  void record(const StepStats& s) override {
    raise_to(*steps_, static_cast<double>(s.step));
    if (s.step_seconds > 0) step_duration_->Observe(s.step_seconds);
    last_step_->Set(unix_seconds());
    reduced_->Increment(static_cast<double>(s.bytes_reduced));
    loader_bytes_->Increment(static_cast<double>(s.loader_bytes));
    loader_queue_->Set(s.loader_queue);
    if (global_) record_global(s);
    if (s.own) {
      const int64_t before = std::exchange(last_own_step_, s.step);
      record_own(*s.own, static_cast<double>(s.step - before));
    }
    if (s.logging) record_logged(s);
  }

  void record(const EvalStats& e) override {
    phase(Phase::kEval).Increment(e.seconds);
    if (!global_) return;
    for (const auto& [name, value] : e.metrics) {
      if (name == "loss") {
        series_.gauge("dtrain_loss", {{"split", e.split}}).Set(value);
      } else {
        series_.gauge("dtrain_eval_metric", {{"split", e.split}, {"metric", name}}).Set(value);
      }
    }
    series_.gauge("dtrain_eval_duration_seconds", {{"split", e.split}}).Set(e.seconds);
  }

  void checkpoint_saved(int64_t step, double seconds) override {
    phase(Phase::kCheckpoint).Increment(seconds);
    if (!global_) return;
    series_.counter("dtrain_checkpoints_total").Increment();
    series_.gauge("dtrain_last_checkpoint_step").Set(static_cast<double>(step));
    series_.gauge("dtrain_last_checkpoint_timestamp_seconds").Set(unix_seconds());
    series_.gauge("dtrain_last_checkpoint_duration_seconds").Set(seconds);
  }

  void verdict(const VerdictRecord& verdict) override {
    if (!global_) return;
    constexpr const char* kGain = "dtrain_verdict_gain_ratio";
    for (Gauge* old : verdict_) series_.remove(kGain, *old);
    verdict_.clear();
    for (const VerdictRecord::Cause& cause : verdict.causes) {
      verdict_.push_back(
          &series_.gauge(kGain, {{"cause", cause.name},
                                 {"setting", cause.setting},
                                 {"slow_rank", cause.rank < 0 ? "" : str(cause.rank)}}));
      verdict_.back()->Set(cause.gain);
    }
    series_.set_known("dtrain_headroom_step_seconds", verdict.probes.cached_step);
    series_.set_known("dtrain_all_reduce_latency_seconds", verdict.probes.latency);
    series_.set_known("dtrain_all_reduce_seconds_per_byte", verdict.probes.seconds_per_byte);
    for (const CommunicationPart& part : kCommunicationParts) {
      series_.set_known("dtrain_communication_seconds", verdict.communication.*part.seconds,
                        {{"part", part.name}});
    }
  }

  void state(LiveState state) override {
    for (const std::string_view name : names_of(state)) {
      series_.gauge("dtrain_run_state", {{"state", std::string(name)}}).Set(name == name_of(state));
    }
  }

 private:
  Counter& phase(Phase p) { return *phases_[static_cast<size_t>(p)]; }

  // What each step needs is kept, because looking a series up takes a lock.
  void make_series() {
    steps_ = &series_.counter("dtrain_steps_total");
    step_duration_ = &series_.histogram("dtrain_step_duration_seconds", kStepBuckets);
    for (size_t i = 0; i < measure::kPhases; ++i)
      phases_[i] =
          &series_.counter("dtrain_phase_seconds_total", {{"phase", measure::kPhaseNames[i]}});
    other_ = &series_.counter("dtrain_phase_seconds_total", {{"phase", "other"}});
    last_step_ = &series_.gauge("dtrain_last_step_timestamp_seconds");
    last_step_->Set(unix_seconds());  // the start counts as progress
    reduced_ = &series_.counter("dtrain_reduced_bytes_total");
    loader_bytes_ = &series_.counter("dtrain_loader_bytes_total");
    loader_queue_ = &series_.gauge("dtrain_loader_queue_depth");
    series_.start(exports_);
    if (!global_) return;
    samples_ = &series_.counter("dtrain_samples_total");
    epochs_ = &series_.counter("dtrain_epochs_total");
    series_.gauge("dtrain_start_timestamp_seconds").Set(unix_seconds());
    planned_ = &series_.gauge("dtrain_planned_steps");
    learning_rate_ = &series_.gauge("dtrain_learning_rate");
    for (const char* name : {"dtrain_eta_seconds", "dtrain_grad_norm"}) series_.gauge(name);
  }

  // Means per step since the last call; `steps`: the steps since then.
  void record_own(const measure::RankMeans& own, double steps) {
    series_.record(own.values, steps, exports_);
    if (own.times.launch > 0)
      series_.counter("dtrain_launch_seconds_total").Increment(own.times.launch * steps);
    constexpr std::array kBuckets = {"first", "middle", "last"};
    for (size_t i = 0; i < kBuckets.size(); ++i) {
      if (own.times.buckets[i] <= 0) continue;
      series_.gauge("dtrain_backward_to_bucket_seconds", {{"bucket", kBuckets[i]}})
          .Set(own.times.buckets[i]);
    }
  }

  // What logging steps alone know.
  void record_logged(const StepStats& s) {
    // Means per step since the last logging step: `own` has those before an evaluation, too.
    // Evaluations and saves are not among them: they report their own time, also after the
    // last step.
    const auto steps = static_cast<double>(std::max<int64_t>(1, s.step - last_phases_step_));
    last_phases_step_ = s.step;
    const measure::PhaseSeconds& phases = s.own ? s.own->times.phases : s.phase_seconds;
    for (size_t i = 0; i < static_cast<size_t>(Phase::kCheckpoint); ++i) {
      phases_[i]->Increment(std::max(0.0, phases[i]) * steps);
    }
    other_->Increment(std::max(0.0, s.own ? s.own->times.other() : s.other_seconds) * steps);
    series_.record(s.values, 1, exports_);
    for (const CollectiveStats& c : s.collectives) {
      const Labels labels = {{"communicator", c.communicator}, {"op", c.operation}};
      raise_to(series_.counter("dtrain_collective_bytes_total", labels), c.bytes);
      raise_to(series_.counter("dtrain_collective_seconds_total", labels), c.seconds);
    }
  }

  void record_global(const StepStats& s) {
    samples_->Increment(static_cast<double>(s.samples));
    if (s.steps_per_epoch > 0) raise_to(*epochs_, static_cast<double>(s.step / s.steps_per_epoch));
    planned_->Set(static_cast<double>(s.total_steps));
    learning_rate_->Set(s.learning_rate);
    if (!s.logging) return;
    // NaN and infinity too, which an alert watches for.
    series_.gauge("dtrain_loss", {{"split", "train"}}).Set(s.loss);
    series_.gauge("dtrain_grad_norm").Set(s.grad_norm);
    series_.gauge("dtrain_eta_seconds").Set(s.eta_seconds);
    series_.set_known("dtrain_padding_ratio", s.padding_waste);
  }

  const bool global_;  // rank 0 exports what is the same on all ranks
  const SeriesFactory::Exports exports_;
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  const SeriesFactory series_;
  int64_t last_phases_step_ = 0, last_own_step_ = 0;

  Counter *steps_ = nullptr, *reduced_ = nullptr, *loader_bytes_ = nullptr, *other_ = nullptr;
  Counter *samples_ = nullptr, *epochs_ = nullptr;  // rank 0
  std::array<Counter*, measure::kPhases> phases_{};
  Histogram* step_duration_ = nullptr;
  Gauge *last_step_ = nullptr, *loader_queue_ = nullptr;
  Gauge *planned_ = nullptr, *learning_rate_ = nullptr;  // rank 0
  std::vector<Gauge*> verdict_;                          // the causes of the newest one

  std::unique_ptr<GpuPoller> gpu_;
  std::optional<DiskMetrics> disk_;
  Endpoint endpoint_;  // last: closed before the rest is destroyed
};

}  // namespace

std::unique_ptr<PrometheusSink> make_prometheus_sink(const config::Metrics& metrics,
                                                     const Identity& identity,
                                                     std::unique_ptr<GpuReader> reader,
                                                     std::vector<Page> more) {
  return std::make_unique<RankSeries>(metrics, identity, std::move(reader), auth_of(metrics),
                                      std::move(more));
}

std::unique_ptr<PrometheusSink> make_prometheus_sink(const config::Metrics& metrics,
                                                     const Identity& identity,
                                                     std::vector<Page> more) {
  OpenedReader opened;
  if (!identity.gpu_pci_bus_id.empty()) {
    opened = open_nvml(identity.gpu_pci_bus_id);
    if (!opened.reader) log::info(str("the metrics have no readings of the GPU: ", opened.problem));
  }
  return make_prometheus_sink(metrics, identity, std::move(opened.reader), std::move(more));
}

}  // namespace dtrain::monitoring

#include "monitoring/prometheus_sink.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/strings.h"
#include "monitoring/disk_metrics.h"
#include "monitoring/endpoint.h"
#include "monitoring/gpu_metrics.h"
#include "monitoring/metrics_page.h"

namespace dtrain::monitoring {
namespace {

using Labels = std::map<std::string, std::string>;
using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;

static_assert(Phase::kCheckpoint < Phase::kEval &&
              static_cast<size_t>(Phase::kEval) + 1 == kPhases);

// Seconds.
const Histogram::BucketBoundaries kStepBuckets = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                                                  0.5,   1,     2,     5,    10,   20,   60};

Labels with(Labels labels, const std::string& name, const std::string& value) {
  labels[name] = value;
  return labels;
}

class Exporter : public PrometheusSink {
 public:
  Exporter(const config::Metrics& metrics, const Identity& id, std::unique_ptr<GpuReader> reader,
           const std::optional<BasicAuth>& auth, std::vector<Page> pages)
      : labels_{{"job_id", id.job_id},
                {"rank", str(id.rank)},
                {"local_rank", str(id.local_rank)},
                {"node", id.node}},
        first_on_host_(id.local_rank == 0),
        global_(id.rank == 0) {
    add_info("dtrain_build_info", "Versions that this process runs", id.build);
    if (global_) add_info("dtrain_job_info", "What this job trains", id.job);
    make_series();
    gauge("dtrain_gpus", "GPUs that this rank reads with NVML").Set(reader ? 1 : 0);
    if (reader) {
      auto gpu = std::make_unique<GpuMetrics>(*registry_, labels_, id.gpu_pci_bus_id, *reader);
      gpu_ = std::make_unique<GpuPoller>(std::move(reader), std::move(gpu), metrics.gpu_interval);
    }
    if (global_ && !id.run_folder.empty()) disk_.emplace(*registry_, labels_, id.run_folder);
    state(RunState::kStarting);
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
  GpuUse take_gpu_use() override { return gpu_ ? gpu_->take() : GpuUse{}; }

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
    if (s.own)
      record_resources(*s.own, static_cast<double>(s.step - std::exchange(last_own_step_, s.step)));
    if (!s.logging) return;
    // Means per step since the last logging step: `own` has those before an evaluation, too.
    // Evaluations and saves are not among them: they report their own time, also after the
    // last step.
    const auto steps = static_cast<double>(std::max<int64_t>(1, s.step - last_phases_step_));
    last_phases_step_ = s.step;
    const PhaseSeconds& phases = s.own ? s.own->times.phases : s.phase_seconds;
    for (size_t i = 0; i < static_cast<size_t>(Phase::kCheckpoint); ++i) {
      phases_[i]->Increment(std::max(0.0, phases[i]) * steps);
    }
    other_->Increment(std::max(0.0, s.own ? s.own->times.other() : s.other_seconds) * steps);
    memory_used_->Set(s.memory_used);
    memory_total_->Set(s.memory_total);
    allocated_->Set(s.memory_used);
    reserved_->Set(s.memory_reserved);
    peak_->Set(s.memory_peak);
    raise_to(*retries_, static_cast<double>(s.allocator_retries));
    raise_to(*out_of_memory_, static_cast<double>(s.out_of_memory));
    for (const CollectiveStats& c : s.collectives) record_collective(c);
  }

  void record(const EvalStats& e) override {
    phase(Phase::kEval).Increment(e.seconds);
    if (!global_) return;
    for (const auto& [name, value] : e.metrics) {
      if (name == "loss") {
        loss_family_->Add(with(labels_, "split", e.split)).Set(value);
      } else {
        eval_family_->Add(with(with(labels_, "split", e.split), "metric", name)).Set(value);
      }
    }
    gauge("dtrain_eval_duration_seconds", "Duration of the last evaluation", {{"split", e.split}})
        .Set(e.seconds);
  }

  void checkpoint_saved(int64_t step, double seconds) override {
    phase(Phase::kCheckpoint).Increment(seconds);
    if (!global_) return;
    counter("dtrain_checkpoints_total", "Checkpoints saved by this process").Increment();
    gauge("dtrain_last_checkpoint_step", "Optimizer step of the last checkpoint saved")
        .Set(static_cast<double>(step));
    gauge("dtrain_last_checkpoint_timestamp_seconds", "When the last checkpoint was saved")
        .Set(unix_seconds());
    gauge("dtrain_last_checkpoint_duration_seconds", "How long the last checkpoint took to save")
        .Set(seconds);
  }

  void verdict(const VerdictRecord& verdict) override {
    if (!global_) return;
    auto& family =
        prometheus::BuildGauge()
            .Name("dtrain_verdict_gain_ratio")
            .Help("What the run would gain without this cause, as a ratio; NaN: not computable")
            .Register(*registry_);
    for (Gauge* old : verdict_) family.Remove(old);
    verdict_.clear();
    for (const VerdictRecord::Cause& cause : verdict.causes) {
      Labels labels = with(with(labels_, "cause", cause.name), "setting", cause.setting);
      labels["slow_rank"] = cause.rank < 0 ? "" : str(cause.rank);
      verdict_.push_back(&family.Add(labels));
      verdict_.back()->Set(cause.gain);
    }
    set_known("dtrain_headroom_step_seconds", "Duration of a step with batches from memory",
              verdict.probes.cached_step);
    set_known("dtrain_all_reduce_latency_seconds",
              "Cost of an all-reduce when no rank is late, but for its bytes",
              verdict.probes.latency);
    set_known("dtrain_all_reduce_seconds_per_byte",
              "Cost of a byte of an all-reduce when no rank is late",
              verdict.probes.seconds_per_byte);
    const VerdictRecord::Communication& waits = verdict.communication;
    const std::pair<const char*, double> parts[] = {{"late", waits.late},
                                                    {"latency", waits.latency},
                                                    {"bandwidth", waits.bandwidth},
                                                    {"not_overlapped", waits.not_overlapped},
                                                    {"other", waits.other}};
    for (const auto& [part, seconds] : parts) {
      set_known("dtrain_communication_seconds",
                "Waiting for gradients per step, by what it was for", seconds, {{"part", part}});
    }
  }

  void state(RunState state) override {
    for (const std::string_view name : names_of(state)) {
      gauge("dtrain_run_state", "1 for the state that this rank is in, 0 for the others",
            {{"state", std::string(name)}})
          .Set(name == name_of(state));
    }
  }

 private:
  // Registering a family or a series again returns the existing one, under a lock: what each step
  // needs is kept below.
  Gauge& gauge(const char* name, const char* help, const Labels& more = {}) {
    Labels labels = labels_;
    labels.insert(more.begin(), more.end());
    return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_).Add(labels);
  }
  Counter& counter(const char* name, const char* help, const Labels& more = {}) {
    Labels labels = labels_;
    labels.insert(more.begin(), more.end());
    return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_).Add(labels);
  }
  Counter& phase(Phase p) { return *phases_[static_cast<size_t>(p)]; }
  void add_info(const char* name, const char* help, const Labels& values) {
    gauge(name, help, values).Set(1);
  }

  void make_series() {
    steps_ = &counter("dtrain_steps_total", "Optimizer steps of the run, skipped ones too");
    step_duration_ = &prometheus::BuildHistogram()
                          .Name("dtrain_step_duration_seconds")
                          .Help("Wall time of an optimizer step")
                          .Register(*registry_)
                          .Add(labels_, kStepBuckets);
    for (size_t i = 0; i < kPhases; ++i) {
      phases_[i] =
          &counter("dtrain_phase_seconds_total", "Time of this rank in each phase of its steps",
                   {{"phase", kPhaseNames[i]}});
    }
    other_ = &counter("dtrain_phase_seconds_total", "Time of this rank in each phase of its steps",
                      {{"phase", "other"}});
    last_step_ = &gauge("dtrain_last_step_timestamp_seconds", "When the last optimizer step ended");
    last_step_->Set(unix_seconds());  // the start counts as progress
    reduced_ =
        &counter("dtrain_reduced_bytes_total", "Gradient bytes given to all-reduce by this rank");
    loader_bytes_ = &counter("dtrain_loader_bytes_total", "Bytes of samples read by this rank");
    loader_queue_ = &gauge("dtrain_loader_queue_depth", "Batches ready to be used");
    memory_used_ = &gauge("dtrain_memory_used_bytes",
                          "Device memory of this rank; on the CPU its resident set");
    memory_total_ =
        &gauge("dtrain_memory_total_bytes", "Memory of the device; on the CPU of the machine");
    const auto memory = [this](const char* kind) {
      return &gauge("dtrain_device_memory_bytes",
                    "Memory of LibTorch's allocator; on the CPU the resident set",
                    {{"kind", kind}});
    };
    allocated_ = memory("allocated");
    reserved_ = memory("reserved");
    peak_ = memory("peak");
    retries_ = &counter("dtrain_allocator_retries_total",
                        "Allocations for which unused device memory was given back");
    out_of_memory_ =
        &counter("dtrain_out_of_memory_total", "Allocations of device memory that failed");
    if (!global_) return;
    samples_ = &counter("dtrain_samples_total", "Samples trained on, all ranks");
    epochs_ = &counter("dtrain_epochs_total", "Epochs completed");
    skips_ = &counter("dtrain_optimizer_skips_total", "Optimizer steps skipped",
                      {{"reason", "inf_grad"}});
    gauge("dtrain_start_timestamp_seconds", "When this process began to serve metrics")
        .Set(unix_seconds());
    planned_ = &gauge("dtrain_planned_steps", "Optimizer steps of the whole run");
    eta_ = &gauge("dtrain_eta_seconds", "Time to the end of the run at the current rate");
    loss_family_ = &prometheus::BuildGauge()
                        .Name("dtrain_loss")
                        .Help("Mean loss, all ranks")
                        .Register(*registry_);
    learning_rate_ = &gauge("dtrain_learning_rate", "Learning rate");
    grad_norm_ = &gauge("dtrain_grad_norm", "Norm of the gradient, unscaled and before clipping");
    loss_scale_ = &gauge("dtrain_amp_loss_scale", "Loss scale of fp16; NaN without one");
    loss_scale_->Set(StepStats::kUnknown);
    eval_family_ = &prometheus::BuildGauge()
                        .Name("dtrain_eval_metric")
                        .Help("Metric of the last evaluation")
                        .Register(*registry_);
  }

  // Of the means per step, those that were measured.
  void record_resources(const RankStats& own, double steps) {
    record_loader(own, steps);
    record_process(own, steps);
    record_buckets(own.times);
    if (first_on_host_) record_host(own.host, steps);
    record_link(own.link);
  }

  void set_known(const char* name, const char* help, double value, const Labels& labels = {}) {
    if (!std::isnan(value)) gauge(name, help, labels).Set(value);
  }

  // NaN: not measured.
  void add(const char* name, const char* help, double increment, const Labels& labels = {}) {
    if (increment >= 0) counter(name, help, labels).Increment(increment);
  }

  void record_loader(const RankStats& own, double steps) {
    constexpr const char* kStages = "dtrain_loader_seconds_total";
    constexpr const char* kStagesHelp =
        "Time of the reader threads in each stage, summed over them";
    add(kStages, kStagesHelp, own.read_seconds * steps, {{"stage", "read"}});
    add(kStages, kStagesHelp, own.decode_seconds * steps, {{"stage", "decode"}});
    add(kStages, kStagesHelp, own.augment_seconds * steps, {{"stage", "augment"}});
    constexpr const char* kWait = "dtrain_loader_wait_seconds_total";
    constexpr const char* kWaitHelp =
        "Waiting because no batch was ready (empty), or no room for another (full)";
    add(kWait, kWaitHelp, own.empty_seconds * steps, {{"side", "empty"}});
    add(kWait, kWaitHelp, own.full_seconds * steps, {{"side", "full"}});
    constexpr const char* kSamples = "dtrain_loader_samples_total";
    constexpr const char* kSamplesHelp =
        "Samples read by half of the reader threads alone (few), and others (many)";
    add(kSamples, kSamplesHelp, own.few_samples * steps, {{"readers", "few"}});
    add(kSamples, kSamplesHelp, own.many_samples() * steps, {{"readers", "many"}});
    constexpr const char* kService = "dtrain_loader_service_seconds_total";
    constexpr const char* kServiceHelp =
        "Time of the reader threads for those samples, in all stages";
    add(kService, kServiceHelp, own.few_seconds * steps, {{"readers", "few"}});
    add(kService, kServiceHelp, own.many_seconds() * steps, {{"readers", "many"}});
    set_known("dtrain_loader_queue_ratio", "Mean share of data.prefetch that was ready", own.queue);
  }

  void record_process(const RankStats& own, double steps) {
    add("dtrain_cpu_seconds_total", "CPU time of all threads of this rank",
        own.cpu_seconds * steps);
    add("dtrain_run_delay_seconds_total",
        "Time in which the thread of the network could run, but had no core",
        own.run_delay_seconds * steps);
    add("dtrain_comm_run_delay_seconds_total",
        "The same of the thread that communicates and waited longest",
        own.comm_delay_seconds * steps);
    if (own.times.launch > 0) {
      add("dtrain_launch_seconds_total",
          "Time in which the host launched forward and backward on the GPU",
          own.times.launch * steps);
    }
    add("dtrain_cpu_throttled_seconds_total",
        "Time taken by the CPU limit of the control group, summed over its cores",
        own.throttled_seconds * steps);
    add("dtrain_disk_read_bytes_total",
        "Bytes that this rank read from disks, not from the page cache", own.disk_bytes * steps);
    add("dtrain_major_faults_total", "Pages of memory of this rank that were read from a disk",
        own.major_faults * steps);
    set_known("dtrain_cores", "Cores that this rank may use; of cores that ranks share, its part",
              own.cores);
    set_known("dtrain_threads", "Threads of this rank", own.threads);
  }

  void record_buckets(const StepTimes& times) {
    constexpr std::array kNames = {"first", "middle", "last"};
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (times.buckets[i] <= 0) continue;
      gauge("dtrain_backward_to_bucket_seconds",
            "From the start of backward to a bucket of gradients being ready",
            {{"bucket", kNames[i]}})
          .Set(times.buckets[i]);
    }
  }

  // Its ranks measure the same: the first one exports it, so that a sum over ranks counts it once.
  void record_host(const HostStats& host, double steps) {
    constexpr const char* kSeconds = "dtrain_host_seconds_total";
    constexpr const char* kHelp = "Time of all cores of the host together, with all its processes";
    add(kSeconds, kHelp, host.busy * steps, {{"kind", "busy"}});
    add(kSeconds, kHelp, host.idle * steps, {{"kind", "idle"}});
    add(kSeconds, kHelp, host.io_wait * steps, {{"kind", "iowait"}});
    add(kSeconds, kHelp, host.steal * steps, {{"kind", "steal"}});
    add("dtrain_host_swapped_in_bytes_total", "Memory of the host that was read back from swap",
        host.swapped_in * steps);
    add("dtrain_host_page_cache_refault_bytes_total",
        "Bytes of files read again soon after the page cache dropped them",
        host.read_again * steps);
    set_known("dtrain_host_free_memory_bytes", "Memory of the host that this job can still take",
              host.free_memory);
  }

  void record_link(const PcieStats& link) {
    const auto set = [this](const char* name, const char* help, const char* of, int value) {
      if (value > 0) gauge(name, help, {{"of", of}}).Set(value);
    };
    constexpr const char* kLanes = "dtrain_gpu_pcie_lanes";
    constexpr const char* kLanesHelp =
        "Lanes of the PCIe link of the GPU: of the link, and the most that the card can";
    set(kLanes, kLanesHelp, "link", link.width);
    set(kLanes, kLanesHelp, "card", link.card_width);
    constexpr const char* kGeneration = "dtrain_gpu_pcie_generation";
    constexpr const char* kGenerationHelp =
        "PCIe generation of the GPU: the highest of the link so far, and the card's";
    set(kGeneration, kGenerationHelp, "link", link.generation);
    set(kGeneration, kGenerationHelp, "card", link.card_generation);
  }

  void record_collective(const CollectiveStats& c) {
    const Labels labels = {{"communicator", c.communicator}, {"op", c.operation}};
    raise_to(counter("dtrain_collective_bytes_total",
                     "Bytes given to collective operations by this rank", labels),
             c.bytes);
    raise_to(counter("dtrain_collective_seconds_total",
                     "Time in collective operations, with the wait for other ranks", labels),
             c.seconds);
  }

  void record_global(const StepStats& s) {
    samples_->Increment(static_cast<double>(s.samples));
    if (s.steps_per_epoch > 0) raise_to(*epochs_, static_cast<double>(s.step / s.steps_per_epoch));
    planned_->Set(static_cast<double>(s.total_steps));
    learning_rate_->Set(s.learning_rate);
    if (!s.logging) return;
    raise_to(*skips_, static_cast<double>(s.skipped_total));
    if (loss_ == nullptr)
      loss_ = &loss_family_->Add(with(labels_, "split", "train"));  // absent until it is known
    loss_->Set(s.loss);  // NaN and infinity too, which an alert watches for
    grad_norm_->Set(s.grad_norm);
    loss_scale_->Set(s.loss_scale);
    eta_->Set(s.eta_seconds);
    set_known("dtrain_padding_ratio",
              "Share of the rows of batches that are padding, since the last logging step",
              s.padding_waste);
  }

  const Labels labels_;
  const bool first_on_host_;  // exports what is the same on all ranks of a host
  const bool global_;         // rank 0 exports what is the same on all ranks
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  int64_t last_phases_step_ = 0, last_own_step_ = 0;

  Counter *steps_ = nullptr, *samples_ = nullptr, *epochs_ = nullptr, *skips_ = nullptr;
  Counter *reduced_ = nullptr, *loader_bytes_ = nullptr, *retries_ = nullptr,
          *out_of_memory_ = nullptr;
  std::array<Counter*, kPhases> phases_{};
  Counter* other_ = nullptr;     // in no phase
  std::vector<Gauge*> verdict_;  // of the newest one
  Histogram* step_duration_ = nullptr;
  Gauge *last_step_ = nullptr, *loader_queue_ = nullptr, *memory_used_ = nullptr,
        *memory_total_ = nullptr;
  Gauge *allocated_ = nullptr, *reserved_ = nullptr, *peak_ = nullptr;
  Gauge *planned_ = nullptr, *eta_ = nullptr, *loss_ = nullptr, *learning_rate_ = nullptr,
        *grad_norm_ = nullptr;
  Gauge* loss_scale_ = nullptr;
  prometheus::Family<Gauge>*loss_family_ = nullptr, *eval_family_ = nullptr;

  std::unique_ptr<GpuPoller> gpu_;
  std::optional<DiskMetrics> disk_;
  Endpoint endpoint_;  // last: closed before the rest is destroyed
};

}  // namespace

std::unique_ptr<PrometheusSink> make_prometheus_sink(const config::Metrics& metrics,
                                                     const Identity& identity,
                                                     std::unique_ptr<GpuReader> reader,
                                                     std::vector<Page> more) {
  return std::make_unique<Exporter>(metrics, identity, std::move(reader), auth_of(metrics),
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

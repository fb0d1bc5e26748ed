// The real sinks of one rank with invented steps, for tests of the dashboards, the rules and the
// page without a training run. `exposition_demo RANK RUNS_FOLDER SECONDS [gpu] [job=NAME]
// [fault=KIND] [linger=SECONDS]` writes RUNS/NAME/{metrics.jsonl, events.out.tfevents.*} and
// RUNS/targets/NAME.RANK.json (NAME: demo), prints its address, trains for SECONDS, and serves its
// metrics until linger has passed too. A fault begins with the 30th step, after three seconds: nan,
// scale, skips, starved, slow (rank 1), heat (with gpu), stalled or unsaved (checkpoints end).

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/log.h"
#include "monitoring/console_sink.h"
#include "monitoring/jsonl_sink.h"
#include "monitoring/launch_metrics.h"
#include "monitoring/live_page.h"
#include "monitoring/prometheus_sink.h"
#include "monitoring/targets_file.h"
#include "monitoring/tensorboard_sink.h"

using namespace dtrain::monitoring;
using dtrain::measure::Phase;
using dtrain::measure::Quantity;
using dtrain::measure::RankMeans;

namespace {

constexpr int64_t kFaultBegins = 30;

class SteadyGpu : public GpuReader {
 public:
  explicit SteadyGpu(bool hot) : throttled_(hot ? 0x44 : 0x4) {}
  std::string name() const override { return "Demo GPU"; }
  std::string uuid() const override { return "GPU-demo"; }
  std::optional<GpuReading> read() override {
    energy_ += 300;
    return GpuReading{.values = {{Quantity::kGpuUtilization, 0.95},
                                 {Quantity::kGpuMemoryUtilization, 0.6},
                                 {Quantity::kGpuMemoryUsed, 8e9},
                                 {Quantity::kGpuMemory, 24e9},
                                 {Quantity::kGpuPower, 300},
                                 {Quantity::kSmClock, 1.7e9},
                                 {Quantity::kGpuMemoryClock, 9.5e9},
                                 {Quantity::kHighestSmClock, 2.1e9},
                                 {Quantity::kGpuTemperature, 70}},
                      .energy = energy_,
                      .throttle_mask = throttled_};
  }

 private:
  const uint64_t throttled_;
  double energy_ = 0;
};

void add_fault(StepStats& s, std::string_view fault, int rank) {
  if (s.step < kFaultBegins) return;
  double& waited = s.phase_seconds[static_cast<size_t>(Phase::kDataWait)];
  double& forward = s.phase_seconds[static_cast<size_t>(Phase::kForward)];
  double& all_reduce = s.phase_seconds[static_cast<size_t>(Phase::kAllReduceWait)];
  if (fault == "nan") s.loss = std::numeric_limits<double>::quiet_NaN();
  if (fault == "scale") s.values[Quantity::kLossScale] = 0.25;
  if (fault == "skips") s.values[Quantity::kSkippedSteps] = static_cast<double>(s.step / 4);
  if (fault == "starved") waited = 0.08;
  if (fault == "slow") (rank == 1 ? forward : all_reduce) += 0.17;  // the other rank waits for it
}

StepStats step(int64_t i) {
  StepStats s;
  s.step = i;
  s.epoch = (i - 1) / 50;
  s.steps_per_epoch = 50;
  s.epochs = 1000;
  s.total_steps = 50000;
  s.samples = 64;
  s.logging = i == 1 || i % 5 == 0;
  s.loss = std::exp(-0.01 * static_cast<double>(i));
  s.grad_norm = 0.5;
  s.learning_rate = 1e-3;
  s.step_seconds = 0.1;
  s.phase_seconds = {0.002, 0.001, 0.03, 0.05, 0.01, 0.007, 0.001, 0.001};
  s.samples_per_second = 640;
  s.eta_seconds = 0.1 * static_cast<double>(s.total_steps - i);
  s.bytes_reduced = 1 << 20;
  s.loader_bytes = 1 << 18;
  s.loader_queue = 4;
  s.values = {{Quantity::kMemory, 1e9},          {Quantity::kDeviceMemory, 8e9},
              {Quantity::kMemoryAllocated, 1e9}, {Quantity::kMemoryReserved, 2e9},
              {Quantity::kMemoryPeak, 2e9},      {Quantity::kSkippedSteps, 1},
              {Quantity::kLossScale, 65536}};
  s.collectives = {
      {"gradients", "all_reduce", 1e6 * static_cast<double>(i), 0.01 * static_cast<double>(i)}};
  return s;
}

RankMeans rank_means(int rank, const StepStats& s, bool gpu) {
  RankMeans r{.rank = rank,
              .times = {.phases = s.phase_seconds, .wall = s.step_seconds},
              .values = {{Quantity::kSamples, 32},
                         {Quantity::kReadSeconds, 0.02},
                         {Quantity::kDecodeSeconds, 0.08},
                         {Quantity::kAugmentSeconds, 0.01},
                         {Quantity::kFewSamples, 8},
                         {Quantity::kManySamples, 24},
                         {Quantity::kFewSeconds, 0.02},
                         {Quantity::kManySeconds, 0.09},
                         {Quantity::kLoaderWait, 0.002},
                         {Quantity::kLoaderFull, 0.05},
                         {Quantity::kQueue, 0.75},
                         {Quantity::kCpu, 0.19},
                         {Quantity::kRunDelay, 0.002 * rank},
                         {Quantity::kThrottled, 0},
                         {Quantity::kMemory, s.values[Quantity::kMemory]},
                         {Quantity::kDiskBytes, 65536},
                         {Quantity::kMajorFaults, 0},
                         {Quantity::kHostCores, 4},
                         {Quantity::kHostBusy, 0.25},
                         {Quantity::kHostIdle, 0.13},
                         {Quantity::kHostIoWait, 0.01},
                         {Quantity::kHostSteal, 0.01},
                         {Quantity::kSwappedIn, 0},
                         {Quantity::kReadAgain, 4096},
                         {Quantity::kFreeMemory, 2e9}}};
  if (!gpu) return r;
  r.values.set({{Quantity::kLinkWidth, 16},
                {Quantity::kCardWidth, 16},
                {Quantity::kLinkGeneration, 4},
                {Quantity::kCardGeneration, 5},
                {Quantity::kGpuUtilization, 0.95},
                {Quantity::kGpuPower, 300},
                {Quantity::kGpuTemperature, 70},
                {Quantity::kSmClock, 1.7e9}});
  return r;
}

EvalStats evaluation(int64_t step, const char* split) {
  return {step, 0, split, {{"loss", 0.1}, {"mae", 6.0}, {"mae_yaw", 7.0}}, {}, 100, 0.5};
}

VerdictRecord verdict(int64_t step) {
  VerdictRecord record{
      .step = step,
      .text = "verdict: data-bound on decode: 2.0 of 100.0 ms waiting; +4 % with --data.workers 4"};
  VerdictRecord::Cause cause;
  cause.name = "decode";
  cause.gain = 0.04;
  cause.error = 0.01;
  cause.setting = "--data.workers 4";
  record.causes.push_back(cause);
  return record;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    return std::fprintf(stderr,
                        "usage: exposition_demo RANK RUNS_FOLDER SECONDS [gpu] [KEY=VALUE]...\n"),
           64;
  }
  const int rank = std::atoi(argv[1]);
  const std::filesystem::path runs = argv[2];
  const double seconds = std::atof(argv[3]);
  bool gpu = false;
  double linger = 0;
  std::string job = "demo", fault;
  for (int i = 4; i < argc; ++i) {
    const std::string_view word = argv[i];
    gpu |= word == "gpu";
    if (word.starts_with("job=")) job = word.substr(4);
    if (word.starts_with("fault=")) fault = word.substr(6);
    if (word.starts_with("linger=")) linger = std::stod(std::string(word.substr(7)));
  }
  dtrain::log::set_rank(rank, 2);
  std::filesystem::create_directories(runs / job);
  dtrain::config::Metrics metrics;
  metrics.port = 0;
  metrics.gpu_interval = 0.5;
  Identity id{.job_id = job,
              .rank = rank,
              .local_rank = rank,
              .node = "localhost",
              .build = {{"version", "0.1.0"}, {"torch", "2.11.0"}},
              .job = {{"task", "headpose"}},
              .gpu_pci_bus_id = gpu ? "0000:65:00.0" : "",
              .run_folder = (runs / job).string()};
  LivePage page(job, {{"task", "headpose"}, {"network", "headpose_cnn"}});
  page.places({{"localhost", gpu ? "Demo GPU" : "cpu", 4, 2},
               {"localhost", gpu ? "Demo GPU" : "cpu", 4, 2}});
  const dtrain::log::LogTap tap([&](std::string_view line) { page.log_line(line); });
  auto endpoint = make_prometheus_sink(metrics, id,
                                       gpu ? std::make_unique<SteadyGpu>(fault == "heat") : nullptr,
                                       rank == 0 ? page.pages() : std::vector<Page>{});
  TargetsFile targets(runs, job + "." + std::to_string(rank),
                      {{endpoint->address(), id.node, rank}});
  std::optional<LaunchMetrics> launch;  // as if the job were supervised
  if (rank == 0) {
    launch.emplace(metrics, 0, runs, job, std::vector<std::string>{"comm", "crash"});
    launch->announce();
  }
  std::printf("%s\n", endpoint->address().c_str());
  if (launch) std::printf("%s\n", launch->address().c_str());
  std::fflush(stdout);
  std::vector<Sink*> sinks = {endpoint.get()};
  Sinks files;
  if (rank == 0) {
    files.push_back(make_jsonl_sink(runs / job / "metrics.jsonl", 0));
    files.push_back(make_tensorboard_sink(runs / job));
    for (const auto& file : files) sinks.push_back(file.get());
    sinks.push_back(&page);
  }
  for (Sink* sink : sinks) sink->state(LiveState::kTraining);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int64_t i = 1;
  for (; i <= 20 || std::chrono::steady_clock::now() < end; ++i) {
    const bool stalled = fault == "stalled" && i >= kFaultBegins;
    const bool unsaved = fault == "unsaved" && i >= kFaultBegins;
    StepStats stats = step(i);
    add_fault(stats, fault, rank);
    if (stats.logging) stats.own = rank_means(rank, stats, gpu);
    if (rank == 0 && stats.logging)
      stats.ranks = {rank_means(0, stats, gpu), rank_means(1, stats, gpu)};
    const int restarts = fault == "restarts" ? static_cast<int>(i / 10) : 0;
    if (launch)
      launch->set({.restarts = {{"crash", restarts}}, .effective_ratio = 0.9, .ranks = 2});
    for (Sink* sink : sinks) {
      if (stalled) continue;
      sink->record(stats);
      if (rank == 0 && stats.logging) sink->verdict(verdict(i));
      if (i % 10 == 0) sink->record(evaluation(i, "val"));
      if (i % 10 == 0 && !unsaved) sink->checkpoint_saved(i, 0.25);
    }
    if (rank == 0 && stats.logging && !stalled)
      dtrain::log::to_file(step_line(stats));  // for the page
    if (seconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (Sink* sink : sinks) {
    sink->record(evaluation(i - 1, "test"));
    sink->state(LiveState::kFinished);
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(linger));
  targets.remove();
  if (launch) launch->ended_well();
  return 0;
}

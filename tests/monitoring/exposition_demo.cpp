// The real sinks of one rank with invented steps, for tests of the dashboard and the rules without a training run.
// `exposition_demo RANK RUNS_FOLDER SECONDS [gpu]` writes RUNS/demo/{metrics.jsonl, events.out.tfevents.*} and
// RUNS/targets/demo.RANK.json, prints its address, and serves metrics for SECONDS.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/log.h"
#include "monitoring/jsonl_sink.h"
#include "monitoring/prometheus_sink.h"
#include "monitoring/targets_file.h"
#include "monitoring/tensorboard_sink.h"

using namespace dtrain::monitoring;

namespace {

class SteadyGpu : public GpuReader {
 public:
  std::string name() const override { return "Demo GPU"; }
  std::string uuid() const override { return "GPU-demo"; }
  std::optional<GpuReading> read() override {
    energy_ += 300;
    return GpuReading{0.95, 0.6, 8e9, 24e9, 300, energy_, 1.7e9, 9.5e9, 70, 0x4};
  }

 private:
  double energy_ = 0;
};

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
  s.loss_scale = 65536;
  s.learning_rate = 1e-3;
  s.skipped_total = 1;
  s.step_seconds = 0.1;
  s.phase_seconds = {0.002, 0.001, 0.03, 0.05, 0.01, 0.007, 0.001, 0.001};
  s.samples_per_second = 640;
  s.eta_seconds = 0.1 * static_cast<double>(s.total_steps - i);
  s.bytes_reduced = 1 << 20;
  s.loader_bytes = 1 << 18;
  s.loader_queue = 4;
  s.memory_used = 1e9;
  s.memory_total = 8e9;
  s.memory_reserved = s.memory_peak = 2e9;
  s.collectives = {{"gradients", "all_reduce", 1e6 * static_cast<double>(i), 0.01 * static_cast<double>(i)}};
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: exposition_demo RANK RUNS_FOLDER SECONDS [gpu]\n"), 64;
  const int rank = std::atoi(argv[1]);
  const std::filesystem::path runs = argv[2];
  const double seconds = std::atof(argv[3]);
  const bool gpu = argc > 4;
  dtrain::log::set_rank(rank, 2);
  std::filesystem::create_directories(runs / "demo");
  dtrain::config::Metrics metrics;
  metrics.port = 0;
  metrics.gpu_interval = 0.5;
  Identity id{"demo", rank, rank, "localhost", {{"version", "0.1.0"}, {"torch", "2.11.0"}}, {{"task", "headpose"}}, ""};
  if (gpu) id.gpu_pci_bus_id = "0000:65:00.0";
  auto endpoint = make_prometheus_sink(metrics, id, gpu ? std::make_unique<SteadyGpu>() : nullptr);
  TargetsFile targets(runs, "demo." + std::to_string(rank), {{endpoint->address(), id.node, rank}});
  std::printf("%s\n", endpoint->address().c_str());
  std::fflush(stdout);
  std::vector<Sink*> sinks = {endpoint.get()};
  Sinks files;
  if (rank == 0) {
    files.push_back(make_jsonl_sink(runs / "demo" / "metrics.jsonl", 0));
    files.push_back(make_tensorboard_sink(runs / "demo"));
    for (const auto& file : files) sinks.push_back(file.get());
  }
  for (Sink* sink : sinks) sink->state(RunState::kTraining);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (int64_t i = 1; i <= 20 || std::chrono::steady_clock::now() < end; ++i) {
    for (Sink* sink : sinks) {
      sink->record(step(i));
      if (i % 10 == 0)
        sink->record(EvalStats{i, 0, "val", {{"loss", 0.1}, {"mae", 6.0}, {"mae_yaw", 7.0}}, {}, 100, 0.5});
      if (i % 10 == 0) sink->checkpoint_saved(i, 0.25);
    }
    if (seconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (Sink* sink : sinks) sink->state(RunState::kFinished);
  targets.remove();
  return 0;
}

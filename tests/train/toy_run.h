#pragma once

// A training that takes a moment: a network of a few weights, a store in memory, threads as ranks,
// a clock that moves with the steps; and a record of what it did.

#include <torch/nn/modules/conv.h>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#include "core/error.h"
#include "data/order/splits.h"
#include "kernels/launch_check.h"
#include "layers/batch_norm.h"
#include "models/parameter_format.h"
#include "support/cpu_context.h"
#include "support/fake_clock.h"
#include "support/memory_store.h"
#include "support/thread_world.h"
#include "train/broadcast_snapshot.h"
#include "train/trainer.h"

namespace dtrain::train {

// One weight per target: y = w · mean(x), optionally after a convolution with batch norm. It can
// fail as a network on a full GPU does, have a loss that is not finite (of all samples, or of one),
// learn nothing, and train in two phases.
class ToyTask : public tasks::Task {
 public:
  enum class Fault {
    kNone,
    kOutOfMemory,
    kLibraryOutOfMemory,
    kDeviceLost,
    kDeviceLostInEvaluation,
    kOwnLaunchFails,
    kOwnLaunchFailsInBackward,
    kGradientNotFinite,
    kOneBadSample,
    kNoProgress
  };
  struct Options {
    Fault fault = Fault::kNone;
    bool batch_norm = false, phases = false;
    bool odd_phase_moves_metrics = false;  // and the even one does not
    int64_t workspace = 0;  // bytes that its first forward pass allocates and keeps, as cuBLAS does
  };
  static constexpr int64_t kBadSample = 5;
  static constexpr kernels::LaunchResult kIllegalAddress = 700;  // of CUDA

  explicit ToyTask(Options options) : options_(options) {
    spec_.image_size = 8;
    spec_.target_flip_sign = {1, 1, 1};
    weight_ = module_->register_parameter("weight", at::zeros({3}));
    bias_ = module_->register_parameter("bias", at::zeros({3}));
    if (options.batch_norm) {
      conv_ = module_->register_module(
          "conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 2, 3).bias(false)));
      norm_ = module_->register_module("norm", layers::BatchNorm(2));
      const at::NoGradGuard no_grad;
      conv_->weight.copy_(at::linspace(-0.5, 0.7, conv_->weight.numel()).view_as(conv_->weight));
      weight_.copy_(at::linspace(1, 2, 3));
    }
  }
  torch::nn::Module& model() override { return *module_; }
  const data::SampleSpec& samples() const override { return spec_; }
  void check(const data::Store&) override {}
  at::Tensor forward(const at::Tensor& inputs) {
    const at::Tensor seen =
        options_.batch_norm ? at::relu(norm_->forward(conv_->forward(inputs))) : inputs;
    return seen.mean({1, 2, 3}).unsqueeze(1) * weight_ + bias_;
  }
  tasks::Loss loss(const data::Batch& batch) override {
    seen.push_back(batch.ids);
    if (options_.fault == Fault::kOutOfMemory)
      TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory");
    if (options_.fault == Fault::kLibraryOutOfMemory) {
      TORCH_CHECK(false,
                  "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`");
    }
    if (options_.fault == Fault::kDeviceLost && seen.size() == 3) lose_device();
    if (options_.fault == Fault::kOwnLaunchFails && seen.size() == 3)
      kernels::check_launch(kIllegalAddress);
    if (options_.workspace > 0 && !workspace_.defined())
      workspace_ = at::empty({options_.workspace}, at::kByte);
    at::Tensor each = (forward(batch.inputs) - batch.targets).square().sum(1) * 1e-6;
    if (options_.fault == Fault::kGradientNotFinite) {
      each.register_hook([](const at::Tensor& gradient) {
        return gradient * std::numeric_limits<double>::infinity();
      });
    }
    if (options_.fault == Fault::kOneBadSample) {
      each = at::where(at::tensor(batch.ids) == kBadSample,
                       each * std::numeric_limits<double>::quiet_NaN(), each);
    }
    if (options_.fault == Fault::kOwnLaunchFailsInBackward && seen.size() == 2) {
      each.register_hook([](const at::Tensor&) { kernels::check_launch(kIllegalAddress); });
    }
    return {each, at::full({}, batch.samples(), each.options().requires_grad(false))};
  }
  double planned_weight(int64_t samples) const override { return static_cast<double>(samples); }
  tasks::Counted count(const data::Batch& batch) override {
    if (options_.fault == Fault::kDeviceLostInEvaluation) lose_device();
    const at::Tensor errors = (forward(batch.inputs) - batch.targets).abs().sum(1).to(at::kDouble);
    return {{{"error", errors.sum()}, {"samples", at::full({}, batch.samples(), errors.options())}},
            errors};
  }
  tasks::Summary summarise(const tasks::Counts& totals) const override {
    const bool stuck = options_.fault == Fault::kNoProgress;
    const double error =
        stuck ? 1 : tasks::number_of(totals, "error") / tasks::number_of(totals, "samples");
    return {{{"loss", error * error}, {"error", error}, {"score", -error}}, {}};
  }
  std::vector<tasks::MetricSpec> metrics() const override {
    return {{"loss"}, tasks::primary({"error"}), {"score", /*higher_is_better=*/true}};
  }
  std::vector<std::string> columns() const override { return {}; }
  std::vector<tasks::Row> predict(const data::Batch&) override { return {}; }
  tasks::Metadata metadata() const override { return {{"task", "toy"}}; }

  tasks::TrainingPhase phase(int64_t epoch) const override {
    const bool even = epoch % 2 == 0;
    tasks::TrainingPhase phase{
        .lr_ratio = [](const std::string& parameter) { return parameter == "bias" ? 0.5 : 1; }};
    if (!options_.phases) return phase;
    phase.name = even ? "even" : "odd";
    phase.lr_ratio = [even](const std::string& parameter) {
      return parameter == "weight" ? (even ? 1 : 0) : parameter == "bias" ? (even ? 0 : 0.5) : 1;
    };
    if (options_.odd_phase_moves_metrics && even)
      phase.metrics = {"loss"};  // not the one that is watched
    return phase;
  }

  std::vector<std::vector<int64_t>> seen;  // ids of each micro-batch

 private:
  [[noreturn]] static void lose_device() {
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, kIllegalAddress,
                                "CUDA error: illegal memory access\nSearch for");
  }

  Options options_;
  // As modules() asks
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>();
  at::Tensor weight_, bias_, workspace_;
  torch::nn::Conv2d conv_{nullptr};
  layers::BatchNorm norm_{nullptr};
  data::SampleSpec spec_;
};

// Some samples cannot be read, and each checksum takes a while.
class HoledStore : public testing::MemoryStore {
 public:
  HoledStore(int64_t samples, std::set<int64_t> holes, std::chrono::milliseconds checksum_time = {})
      : testing::MemoryStore(samples, 8, 8),
        holes_(std::move(holes)),
        checksum_time_(checksum_time) {}
  uint64_t checksum(int64_t id) const override {
    std::this_thread::sleep_for(checksum_time_);
    return testing::MemoryStore::checksum(id);
  }
  void read_input(int64_t id, std::span<std::byte> out) const override {
    if (holes_.contains(id)) throw DataError(str("memory.h5#", id, ": a hole"));
    testing::MemoryStore::read_input(id, out);
  }

 private:
  std::set<int64_t> holes_;
  std::chrono::milliseconds checksum_time_;
};

struct Record : monitoring::Sink {
  std::vector<monitoring::StepStats> steps;
  std::vector<monitoring::EvalStats> evals;
  std::vector<int64_t> saved, judged;  // the steps in which
  monitoring::LiveState now = monitoring::LiveState::kStarting;
  std::vector<monitoring::LiveState> evaluated_in;  // of each evaluation
  std::function<void(const Progress&)> on_progress = {};
  void progress(const Progress& progress) override {
    if (on_progress) on_progress(progress);
  }
  void state(monitoring::LiveState s) override { now = s; }
  void verdict(const monitoring::VerdictRecord& v) override { judged.push_back(v.step); }
  void checkpoint_saved(int64_t step, double) override { saved.push_back(step); }
  void record(const monitoring::StepStats& s) override { steps.push_back(s); }
  void record(const monitoring::EvalStats& e) override {
    evals.push_back(e);
    evaluated_in.push_back(now);
  }
};

struct RankRun {
  TrainResult result;
  std::vector<monitoring::StepStats> steps;
  std::vector<monitoring::EvalStats> evals;
  std::vector<int64_t> saved, judged;
  monitoring::LiveState last_state = monitoring::LiveState::kStarting;
  std::vector<monitoring::LiveState> evaluated_in;
  std::string error;
  int error_code = 0;
  std::string device_failed;  // what the callback of this name received
  std::vector<at::Tensor> weights;
  std::vector<std::vector<int64_t>> seen;
  std::vector<std::string> places;  // phases that the watchdog received, repetitions left out
};

struct Scenario {
  int ranks = 1;
  config::Config config = {};
  ToyTask::Options toy = {};
  int stop_at_rank = -1;
  // The request to stop comes so that this step is the last; 0: at the beginning
  int64_t stop_after = 0;
  std::string stop_in = {};  // instead: in the first evaluation of this split at or after that step
  std::filesystem::path folder = {};  // saves there
  bool resume = false;                // from the newest checkpoint of the folder
  Precision precision = Precision::kFp32;
  std::set<int64_t> holes = {};  // samples that cannot be read
  std::chrono::milliseconds checksum_time{0};
  std::vector<int64_t> test = {};  // the test split
  config::Interval log_every = {.steps = 1};
  std::chrono::milliseconds phase_time{2};  // by which the clock moves in each phase of a step
  double headroom_seconds = 0;              // measured before training
  std::function<measure::Values()> take_gpu_use = {};
  int verdict_at_rank = -1;     // that is asked for a verdict, once,
  std::string verdict_in = {};  // when it first is in this phase; "": before the run
};

// 22 samples, 17 to train on, in global batches of 8: a tail of 1.
inline std::vector<RankRun> run(const Scenario& setup) {
  const int ranks = setup.ranks;
  config::Config config = setup.config;
  std::vector<RankRun> runs(static_cast<size_t>(ranks));
  const HoledStore store(22, setup.holes, setup.checksum_time);
  const testing::FakeClock clock;
  data::Splits splits;
  splits.train.resize(17);
  std::iota(splits.train.begin(), splits.train.end(), 0);
  splits.val = {17, 18, 19, 20, 21};
  splits.test = setup.test;
  config.run.log_every = setup.log_every;
  dist::run_thread_world(ranks, [&](dist::MeteredCommunicator& comm) {
    at::set_num_threads(1);
    RankRun& mine = runs[static_cast<size_t>(comm.rank())];
    ToyTask task(setup.toy);
    models::convert_floating_point(task.model(), parameter_dtype(setup.precision));
    data::Splits used = splits;
    if (config.train.overfit_batches > 0)
      used = overfit_splits(splits, 8 * config.train.overfit_batches, 1);
    const BatchArithmetic batches =
        batch_arithmetic(config.train, ranks, static_cast<int64_t>(used.train.size()));
    monitoring::Sinks sinks;
    auto record = std::make_unique<Record>();
    Record& kept = *record;
    sinks.push_back(std::move(record));
    std::unique_ptr<checkpoint::CheckpointStore> checkpoints;
    if (!setup.folder.empty() && comm.rank() == 0) {
      checkpoints = std::make_unique<checkpoint::CheckpointStore>(setup.folder, real_file_system(),
                                                                  config.checkpoint.keep_last);
    }
    const bool is_asked = comm.rank() == setup.stop_at_rank;
    // Of many, the request is granted a step later
    const int64_t asked_in = setup.stop_after - (ranks > 1 ? 2 : 1);
    std::atomic<bool> stop{is_asked && setup.stop_after == 0};
    int64_t step_now = 0;
    if (is_asked && !setup.stop_in.empty()) {
      kept.on_progress = [&](const Progress& progress) {
        if (progress.stage == setup.stop_in && step_now >= setup.stop_after) stop = true;
      };
    }
    bool asks_for_verdict = comm.rank() == setup.verdict_at_rank;
    std::atomic<bool> verdict{asks_for_verdict && setup.verdict_in.empty()};
    try {
      TrainContext context =
          testing::cpu_context(config, batches, task, store, used, comm, sinks, stop, clock);
      context.precision = setup.precision;
      context.checkpoints = checkpoints.get();
      context.verdict_requested = &verdict;
      context.progress = [&](const char* phase, int64_t step) {
        if (mine.places.empty() || mine.places.back() != phase) mine.places.emplace_back(phase);
        step_now = step;
        if (is_asked && setup.stop_in.empty() && step >= asked_in &&
            std::string_view(phase) == "data_wait")
          stop = true;
        if (asks_for_verdict && setup.verdict_in == phase) {
          verdict = true;
          asks_for_verdict = false;
        }
        if (comm.rank() == 0) clock.advance(setup.phase_time);
      };
      context.device_failed = [&](const Error& e) { mine.device_failed = e.what(); };
      context.take_gpu_use = setup.take_gpu_use;
      context.headroom_seconds = setup.headroom_seconds;
      Trainer trainer(std::move(context));
      if (setup.resume) {
        std::optional<checkpoint::Snapshot> snapshot;
        if (comm.rank() == 0)
          snapshot = checkpoint::CheckpointStore::load(*checkpoints->newest(nullptr));
        trainer.resume(*broadcast_snapshot(comm, snapshot));
      }
      mine.result = trainer.run();
      for (const at::Tensor& weight : task.model().parameters())
        mine.weights.push_back(weight.detach().clone());
    } catch (const Error& e) {
      mine.error = e.what();
      mine.error_code = e.exit_code();
    }
    mine.seen = task.seen;
    mine.steps = kept.steps;
    mine.evals = kept.evals;
    mine.saved = kept.saved;
    mine.judged = kept.judged;
    mine.last_state = kept.now;
    mine.evaluated_in = kept.evaluated_in;
  });
  return runs;
}

inline std::vector<RankRun> run(int ranks, const config::Config& config,
                                ToyTask::Fault fault = ToyTask::Fault::kNone, int stop_at_rank = -1,
                                const std::filesystem::path& folder = {}) {
  return run({.ranks = ranks,
              .config = config,
              .toy = {.fault = fault},
              .stop_at_rank = stop_at_rank,
              .folder = folder});
}

inline config::Config small(int64_t batch_size) {
  config::Config config;
  config.train.batch_size = batch_size;
  config.train.global_batch = 8;
  config.train.epochs = 2;
  return config;
}

}  // namespace dtrain::train

// The loop itself, with threads as ranks and a store in memory: what it consumes, what it reports, and how it ends.

#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "core/error.h"
#include "data/memory_store.h"
#include "dist/thread_communicator.h"
#include "support/temp_dir.h"

namespace dtrain::train {
namespace {

using ::testing::HasSubstr;

// One weight per target: y = w · mean(x). Can fail at a given micro-step as a network on a full GPU does, or lose the
// numbers.
class ToyTask : public tasks::Task {
 public:
  enum class Fault { kNone, kOutOfMemory, kNotFinite };
  explicit ToyTask(Fault fault = Fault::kNone) : fault_(fault) {
    spec_.image_size = 8;
    spec_.target_flip_sign = {1, 1, 1};
    weight_ = module_.register_parameter("weight", at::zeros({3}));
  }
  torch::nn::Module& model() override { return module_; }
  const data::SampleSpec& samples() const override { return spec_; }
  void check(const data::Store&) const override {}
  at::Tensor forward(const at::Tensor& inputs) const { return inputs.mean({1, 2, 3}).unsqueeze(1) * weight_; }
  tasks::Loss loss(const data::Batch& batch) override {
    if (fault_ == Fault::kOutOfMemory) TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory");
    at::Tensor sum = (forward(batch.inputs) - batch.targets).square().sum() * 1e-6;
    if (fault_ == Fault::kNotFinite) sum = sum * std::numeric_limits<double>::infinity();
    return {sum, at::full({}, batch.samples(), sum.options().requires_grad(false))};
  }
  double planned_weight(int64_t samples) const override { return static_cast<double>(samples); }
  tasks::Counted count(const data::Batch& batch) override {
    const at::Tensor errors = (forward(batch.inputs) - batch.targets).abs().sum(1).to(at::kDouble);
    return {{{"error", errors.sum()}, {"samples", at::full({}, batch.samples(), errors.options())}}, errors};
  }
  tasks::Summary summarise(const tasks::Counts& totals) const override {
    const double error = (totals[0].second / totals[1].second).item<double>();
    return {{{"loss", error * error}, {"error", error}}, {}};
  }
  std::vector<tasks::MetricSpec> metrics() const override { return {{"loss"}, {"error"}}; }
  std::vector<std::string> columns() const override { return {}; }
  std::vector<tasks::Row> predict(const data::Batch&) override { return {}; }
  tasks::Metadata metadata() const override { return {{"task", "toy"}}; }

 private:
  Fault fault_;
  torch::nn::Module module_;
  at::Tensor weight_;
  data::SampleSpec spec_;
};

struct Record : monitoring::Sink {
  std::vector<monitoring::StepStats> steps;
  std::vector<monitoring::EvalStats> evals;
  std::vector<int64_t> saved;
  void checkpoint_saved(int64_t step, double) override { saved.push_back(step); }
  void record(const monitoring::StepStats& s) override { steps.push_back(s); }
  void record(const monitoring::EvalStats& e) override { evals.push_back(e); }
};

struct RankRun {
  Outcome outcome;
  std::vector<monitoring::StepStats> steps;
  std::vector<monitoring::EvalStats> evals;
  std::vector<int64_t> saved;
  std::string error;
  int error_code = 0;
};

// 22 samples, 17 to train on, in global batches of 8: a tail of 1. With a folder it saves there, and takes its time.
std::vector<RankRun> run(int ranks, config::Config config, ToyTask::Fault fault = ToyTask::Fault::kNone,
                         int stop_at_rank = -1, const std::filesystem::path& folder = {}) {
  std::vector<RankRun> runs(static_cast<size_t>(ranks));
  const testing::MemoryStore store(22, 8, 8);
  data::Splits splits;
  splits.train.resize(17);
  std::iota(splits.train.begin(), splits.train.end(), 0);
  splits.val = {17, 18, 19, 20, 21};
  config.run.log_every = {.steps = 1};
  dist::run_thread_world(ranks, [&](dist::Communicator& comm) {
    at::set_num_threads(1);
    RankRun& result = runs[static_cast<size_t>(comm.rank())];
    ToyTask task(fault);
    const BatchArithmetic batches = batch_arithmetic(config.train, ranks, 17);
    monitoring::Sinks sinks;
    auto record = std::make_unique<Record>();
    Record& kept = *record;
    sinks.push_back(std::move(record));
    std::unique_ptr<checkpoint::Store> checkpoints;
    if (!folder.empty() && comm.rank() == 0) {
      checkpoints = std::make_unique<checkpoint::Store>(folder, real_file_system(), config.checkpoint.keep_last);
    }
    const std::atomic<bool> stop{comm.rank() == stop_at_rank};
    try {
      Trainer trainer({.config = config,
                       .batches = batches,
                       .task = task,
                       .store = store,
                       .splits = splits,
                       .device = at::kCPU,
                       .precision = Precision::kFp32,
                       .loader_threads = 1,
                       .gradients = comm,
                       .host = comm,
                       .checkpoints = checkpoints.get(),
                       .sinks = sinks,
                       .stop_requested = stop,
                       .progress = [&](const char*, int64_t) {
                         if (!folder.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
                       }});
      result.outcome = trainer.run();
    } catch (const Error& e) {
      result.error = e.what();
      result.error_code = e.exit_code();
    }
    result.steps = kept.steps;
    result.evals = kept.evals;
    result.saved = kept.saved;
  });
  return runs;
}

config::Config small(int64_t batch_size) {
  config::Config config;
  config.train.batch_size = batch_size;
  config.train.global_batch = 8;
  config.train.epochs = 2;
  return config;
}

TEST(Trainer, ConsumesTheSameOnAnyNumberOfRanks) {
  const RankRun one = run(1, small(8))[0];
  EXPECT_EQ(one.outcome.steps, 6);
  ASSERT_EQ(one.steps.size(), 6u);
  EXPECT_EQ(one.steps[2].samples, 1) << "the tail";
  EXPECT_EQ(one.evals.size(), 2u);
  for (const int ranks : {2, 3, 4}) {
    const std::vector<RankRun> others = run(ranks, small(3));
    for (const RankRun& other : others) {
      EXPECT_EQ(other.outcome.best, others[0].outcome.best)
          << "decided from reduced values: the same bits on every rank";
      EXPECT_EQ(other.outcome.ledger, one.outcome.ledger) << ranks;
      ASSERT_EQ(other.steps.size(), 6u);
      for (size_t step = 0; step < 6; ++step) {
        EXPECT_EQ(other.steps[step].ledger, one.steps[step].ledger);
        EXPECT_EQ(other.steps[step].samples, one.steps[step].samples);
        EXPECT_NEAR(other.steps[step].loss, one.steps[step].loss, 1e-5 * one.steps[step].loss);
      }
      EXPECT_NEAR(other.outcome.validation[1].second, one.outcome.validation[1].second, 1e-4);
      EXPECT_NEAR(other.outcome.best, one.outcome.best, 1e-4);
    }
  }
}

TEST(Trainer, OneRankThatIsAskedToStopStopsAll) {
  config::Config config = small(4);
  config.train.epochs = 100;
  const std::vector<RankRun> runs = run(3, config, ToyTask::Fault::kNone, /*stop_at_rank=*/1);
  for (const RankRun& r : runs) {
    EXPECT_EQ(r.outcome.exit_code, kExitStoppedOnRequest);
    EXPECT_EQ(r.outcome.steps, 2) << "the wish of one step boundary is the decision of the next";
  }
}

TEST(Trainer, SavesOnceWhenTheTimeHasCome) {
  const testing::TempDir folder;
  config::Config config = small(4);
  config.run.name = "toy";
  config.train.epochs = 20;
  config.train.eval_every = {.epochs = 20};
  config.checkpoint.every = {.minutes = 0.05 / 60};  // some five steps
  const std::vector<RankRun> runs = run(2, config, ToyTask::Fault::kNone, -1, folder.path());
  const std::vector<int64_t>& saved = runs[0].saved;
  EXPECT_EQ(saved, runs[1].saved);
  ASSERT_GE(saved.size(), 3u);
  for (size_t i = 1; i + 1 < saved.size(); ++i) EXPECT_GT(saved[i], saved[i - 1] + 1) << "of the same wish";
}

TEST(Trainer, OutOfMemorySaysWhichBatchSizeToUse) {
  config::Config config = small(8);
  const RankRun r = run(1, config, ToyTask::Fault::kOutOfMemory)[0];
  EXPECT_EQ(r.error_code, 69);
  EXPECT_THAT(r.error, HasSubstr("micro-batch of 8 samples"));
  EXPECT_THAT(r.error, HasSubstr("--batch-size 4 --accumulate 2"));
  EXPECT_THAT(r.error, HasSubstr("peak "));
}

TEST(Trainer, ALossThatStaysNotFiniteEndsTheRunOnAllRanks) {
  config::Config config = small(8);
  config.train.epochs = 100;
  for (const RankRun& r : run(2, config, ToyTask::Fault::kNotFinite)) {
    EXPECT_EQ(r.error_code, 79) << r.error;
    EXPECT_THAT(r.error, HasSubstr("not finite in the last 50 steps"));
  }
}

}  // namespace
}  // namespace dtrain::train

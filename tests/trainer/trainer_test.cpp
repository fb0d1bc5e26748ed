// The loop itself, with threads as ranks and a store in memory: what it consumes, what it reports, and how it ends.

#include "train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "core/error.h"
#include "data/memory_store.h"
#include "dist/thread_communicator.h"
#include "models/batch_norm.h"
#include "models/state.h"
#include "support/temp_dir.h"
#include "train/content_transfer.h"
#include "train/overfit.h"
#include "train/schedule.h"

namespace dtrain::train {
namespace {

using ::testing::HasSubstr;

// One weight per target: y = w · mean(x); or a convolution with batch norm before it. Can fail at a given micro-step as
// a network on a full GPU does, lose the numbers (of all samples, or of one), not learn at all, and train in two
// phases.
class ToyTask : public tasks::Task {
 public:
  enum class Fault { kNone, kOutOfMemory, kNotFinite, kOneBadSample, kNoProgress };
  struct Options {
    Fault fault = Fault::kNone;
    bool batch_norm = false, phases = false;
  };
  static constexpr int64_t kBadSample = 5;

  explicit ToyTask(Options options) : options_(options) {
    spec_.image_size = 8;
    spec_.target_flip_sign = {1, 1, 1};
    weight_ = module_->register_parameter("weight", at::zeros({3}));
    bias_ = module_->register_parameter("bias", at::zeros({3}));
    if (options.batch_norm) {
      conv_ = module_->register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 2, 3).bias(false)));
      norm_ = module_->register_module("norm", models::BatchNorm(2));
      const at::NoGradGuard no_grad;
      conv_->weight.copy_(at::linspace(-0.5, 0.7, conv_->weight.numel()).view_as(conv_->weight));
      weight_.copy_(at::linspace(1, 2, 3));
    }
  }
  torch::nn::Module& model() override { return *module_; }
  const data::SampleSpec& samples() const override { return spec_; }
  void check(const data::Store&) const override {}
  void check_samples(const data::Store&) const override {}
  at::Tensor forward(const at::Tensor& inputs) {
    const at::Tensor seen = options_.batch_norm ? at::relu(norm_->forward(conv_->forward(inputs))) : inputs;
    return seen.mean({1, 2, 3}).unsqueeze(1) * weight_ + bias_;
  }
  tasks::Loss loss(const data::Batch& batch) override {
    seen.push_back(batch.ids);
    if (options_.fault == Fault::kOutOfMemory) TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory");
    at::Tensor each = (forward(batch.inputs) - batch.targets).square().sum(1) * 1e-6;
    if (options_.fault == Fault::kNotFinite) each = each * std::numeric_limits<double>::infinity();
    if (options_.fault == Fault::kOneBadSample) {
      each = at::where(at::tensor(batch.ids) == kBadSample, each * std::numeric_limits<double>::quiet_NaN(), each);
    }
    const at::Tensor per_sample = options_.fault == Fault::kOneBadSample ? each.detach() : at::Tensor();
    return {each.sum(), at::full({}, batch.samples(), each.options().requires_grad(false)), per_sample};
  }
  double planned_weight(int64_t samples) const override { return static_cast<double>(samples); }
  tasks::Counted count(const data::Batch& batch) override {
    const at::Tensor errors = (forward(batch.inputs) - batch.targets).abs().sum(1).to(at::kDouble);
    return {{{"error", errors.sum()}, {"samples", at::full({}, batch.samples(), errors.options())}}, errors};
  }
  tasks::Summary summarise(const tasks::Counts& totals) const override {
    const bool stuck = options_.fault == Fault::kNoProgress;
    const double error = stuck ? 1 : (totals[0].second / totals[1].second).item<double>();
    return {{{"loss", error * error}, {"error", error}, {"score", -error}}, {}};
  }
  std::vector<tasks::MetricSpec> metrics() const override {
    return {{"loss"}, {"error"}, {"score", /*higher_is_better=*/true}};
  }
  std::vector<std::string> columns() const override { return {}; }
  std::vector<tasks::Row> predict(const data::Batch&) override { return {}; }
  tasks::Metadata metadata() const override { return {{"task", "toy"}}; }

  std::string phase(int64_t epoch) const override {
    return !options_.phases ? "train" : epoch % 2 == 0 ? "even" : "odd";
  }
  void enter_phase(const std::string& phase) override {
    if (!options_.phases) return;
    weight_.set_requires_grad(phase == "even");
    bias_.set_requires_grad(phase == "odd");
  }
  double lr_ratio(const std::string& parameter) const override { return parameter == "bias" ? 0.5 : 1; }

  std::vector<std::vector<int64_t>> seen;  // ids of each micro-batch

 private:
  Options options_;
  std::shared_ptr<torch::nn::Module> module_ = std::make_shared<torch::nn::Module>();  // as modules() asks
  at::Tensor weight_, bias_;
  torch::nn::Conv2d conv_{nullptr};
  models::BatchNorm norm_{nullptr};
  data::SampleSpec spec_;
};

// Some samples cannot be read.
class HoledStore : public testing::MemoryStore {
 public:
  HoledStore(int64_t samples, std::set<int64_t> holes)
      : testing::MemoryStore(samples, 8, 8), holes_(std::move(holes)) {}
  void read_input(int64_t id, std::span<std::byte> out) const override {
    if (holes_.contains(id)) throw DataError(str("memory.h5#", id, ": a hole"));
    testing::MemoryStore::read_input(id, out);
  }

 private:
  std::set<int64_t> holes_;
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
  std::vector<at::Tensor> weights;
  std::vector<std::vector<int64_t>> seen;
};

struct Scenario {
  int ranks = 1;
  config::Config config = {};
  ToyTask::Options toy = {};
  int stop_at_rank = -1;
  int64_t stop_after = 0;             // asked to stop so that this step is the last; 0: at the beginning
  std::filesystem::path folder = {};  // saves there, and takes its time
  bool resume = false;                // from the newest checkpoint of the folder
  Precision precision = Precision::kFp32;
  std::set<int64_t> holes = {};  // samples that cannot be read
};

// 22 samples, 17 to train on, in global batches of 8: a tail of 1.
std::vector<RankRun> run(const Scenario& setup) {
  const int ranks = setup.ranks;
  config::Config config = setup.config;
  std::vector<RankRun> runs(static_cast<size_t>(ranks));
  const HoledStore store(22, setup.holes);
  data::Splits splits;
  splits.train.resize(17);
  std::iota(splits.train.begin(), splits.train.end(), 0);
  splits.val = {17, 18, 19, 20, 21};
  config.run.log_every = {.steps = 1};
  dist::run_thread_world(ranks, [&](dist::Communicator& comm) {
    at::set_num_threads(1);
    RankRun& result = runs[static_cast<size_t>(comm.rank())];
    ToyTask task(setup.toy);
    models::convert_floating_point(task.model(), parameter_dtype(setup.precision));
    data::Splits mine = splits;
    if (config.train.overfit_batches > 0) mine = overfit_splits(splits, 8 * config.train.overfit_batches, 1);
    const BatchArithmetic batches = batch_arithmetic(config.train, ranks, static_cast<int64_t>(mine.train.size()));
    monitoring::Sinks sinks;
    auto record = std::make_unique<Record>();
    Record& kept = *record;
    sinks.push_back(std::move(record));
    std::unique_ptr<checkpoint::Store> checkpoints;
    if (!setup.folder.empty() && comm.rank() == 0) {
      checkpoints = std::make_unique<checkpoint::Store>(setup.folder, real_file_system(), config.checkpoint.keep_last);
    }
    const bool is_asked = comm.rank() == setup.stop_at_rank;
    const int64_t asked_in = setup.stop_after - (ranks > 1 ? 2 : 1);  // of many, the wish is granted a step later
    std::atomic<bool> stop{is_asked && setup.stop_after == 0};
    try {
      Trainer trainer({.config = config,
                       .batches = batches,
                       .task = task,
                       .store = store,
                       .splits = mine,
                       .device = at::kCPU,
                       .precision = setup.precision,
                       .loader_threads = 1,
                       .gradients = comm,
                       .host = comm,
                       .statistics = config.train.sync_batch_norm && ranks > 1 ? &comm : nullptr,
                       .checkpoints = checkpoints.get(),
                       .sinks = sinks,
                       .stop_requested = stop,
                       .progress = [&](const char* phase, int64_t step) {
                         if (is_asked && step >= asked_in && std::string_view(phase) == "data") stop = true;
                         if (!setup.folder.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
                       }});
      if (setup.resume) {
        std::optional<checkpoint::Content> content;
        if (comm.rank() == 0) content = checkpoint::Store::load(*checkpoints->newest(nullptr));
        trainer.resume(*broadcast_content(comm, content));
      }
      result.outcome = trainer.run();
      for (const at::Tensor& weight : task.model().parameters()) result.weights.push_back(weight.detach().clone());
    } catch (const Error& e) {
      result.error = e.what();
      result.error_code = e.exit_code();
    }
    result.seen = task.seen;
    result.steps = kept.steps;
    result.evals = kept.evals;
    result.saved = kept.saved;
  });
  return runs;
}

std::vector<RankRun> run(int ranks, const config::Config& config, ToyTask::Fault fault = ToyTask::Fault::kNone,
                         int stop_at_rank = -1, const std::filesystem::path& folder = {}) {
  return run(
      {.ranks = ranks, .config = config, .toy = {.fault = fault}, .stop_at_rank = stop_at_rank, .folder = folder});
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

TEST(Trainer, ASampleWhoseLossIsNotFiniteIsNamedOnEveryRank) {
  for (const RankRun& r : run(2, small(8), ToyTask::Fault::kOneBadSample)) {
    EXPECT_EQ(r.error_code, 79);
    EXPECT_THAT(r.error, HasSubstr("memory.h5#5 (sample_5.png)"));
    EXPECT_THAT(r.error, HasSubstr("the loss of 1 of "));
  }
}

TEST(Trainer, StopsEarlyOnAllRanksAndSaysWhy) {
  config::Config config = small(4);
  config.train.epochs = 100;
  config.train.patience = 3;
  for (const RankRun& r : run(2, config, ToyTask::Fault::kNoProgress)) {
    EXPECT_EQ(r.outcome.steps, 4 * 3) << "the first evaluation is the best; three more are none better";
    EXPECT_EQ(r.outcome.exit_code, 0);
    EXPECT_THAT(r.outcome.reason, HasSubstr("3 evaluations without a better error (best 1.0000 at step 3)"));
  }
}

TEST(Trainer, WatchesTheMetricThatIsNamedInItsDirection) {
  config::Config config = small(8);
  config.optimizer.lr = 0.5;
  config.train.epochs = 5;
  const RankRun error = run({.config = config})[0];
  config.train.metric = "score";
  const RankRun score = run({.config = config})[0];
  EXPECT_EQ(score.outcome.metric, "score");
  EXPECT_EQ(score.outcome.best, -error.outcome.best);
  config.train.metric = "eror";
  EXPECT_THAT(run({.config = config})[0].error, HasSubstr("'eror' is none of this task's metrics: loss, error, score"));
}

TEST(Trainer, ThePlateauScheduleActsOnEvaluations) {
  config::Config config = small(8);
  config.schedule.name = "plateau";
  config.schedule.patience = 1;
  config.schedule.gamma = 0.5;
  config.optimizer.lr = 0.01;
  config.train.epochs = 6;
  const RankRun r = run(1, config, ToyTask::Fault::kNoProgress)[0];
  std::vector<double> rates;
  for (size_t epoch = 0; epoch < 6; ++epoch) rates.push_back(r.steps[3 * epoch].learning_rate / 0.01);
  EXPECT_THAT(rates, ::testing::ElementsAre(1, 1, 1, 0.5, 0.5, 0.25));
}

TEST(Trainer, NoOtherScheduleActsOnEvaluations) {
  config::Config config = small(8);
  config.schedule.patience = 0;
  config.schedule.final_lr_ratio = 0.5;
  config.optimizer.lr = 0.01;
  config.train.epochs = 6;
  for (const char* name : {"constant", "cosine"}) {
    config.schedule.name = name;
    const RankRun r = run(1, config, ToyTask::Fault::kNoProgress)[0];
    ASSERT_EQ(r.steps.size(), 18u);
    for (const monitoring::StepStats& s : r.steps) {
      EXPECT_EQ(s.learning_rate, learning_rate(config.schedule, 0.01, s.step - 1, 18, 3))
          << name << ", step " << s.step;
    }
  }
}

TEST(Trainer, AResumeUnderAnotherScheduleForgetsThePlateau) {
  const testing::TempDir folder;
  Scenario setup{.config = small(8),
                 .toy = {.fault = ToyTask::Fault::kNoProgress},
                 .stop_at_rank = 0,
                 .stop_after = 10,
                 .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.schedule.name = "plateau";
  setup.config.schedule.patience = 0;
  setup.config.optimizer.lr = 0.01;
  setup.config.train.epochs = 6;
  EXPECT_LT(run(setup)[0].steps.back().learning_rate, 0.01);
  setup.config.schedule.name = "constant";
  setup.stop_at_rank = -1;
  setup.resume = true;
  for (const monitoring::StepStats& s : run(setup)[0].steps) EXPECT_EQ(s.learning_rate, 0.01);
}

TEST(Trainer, OverfitsTheSameBatchesAgainAndAgain) {
  config::Config config = small(4);
  config.train.overfit_batches = 2;
  config.train.epochs = 3;
  const RankRun r = run({.config = config})[0];
  ASSERT_EQ(r.seen.size(), 12u) << "3 epochs of 2 steps of 2 micro-batches";
  for (size_t i = 4; i < r.seen.size(); ++i) EXPECT_EQ(r.seen[i], r.seen[i % 4]);
  EXPECT_NE(r.seen[0], r.seen[2]);
  EXPECT_EQ(r.evals[0].samples, 16) << "validated on them";
}

// The lowest ids are rank 0's in an evaluation: it is left without a sample, and still takes part.
TEST(Evaluation, LeavesOutBadSamplesThoughARankHasNoOther) {
  const HoledStore store(12, {0, 1, 2, 3});
  const auto evaluate_on = [&](int ranks, const std::vector<int64_t>& ids) {
    std::vector<Evaluation> all(static_cast<size_t>(ranks));
    dist::run_thread_world(ranks, [&](dist::Communicator& comm) {
      ToyTask task({});
      all[static_cast<size_t>(comm.rank())] =
          evaluate(task, store, ids, "val", {.batch_size = 4, .skip_bad = true, .worst = 3}, comm);
    });
    return all;
  };
  const Evaluation good = evaluate_on(1, {4, 5, 6, 7, 8, 9, 10})[0];
  for (const int ranks : {1, 2, 3}) {
    for (const Evaluation& e : evaluate_on(ranks, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})) {
      EXPECT_EQ(e.bad_samples, 4);
      EXPECT_EQ(e.stats.samples, 7);
      ASSERT_EQ(e.stats.metrics.size(), good.stats.metrics.size());
      for (size_t i = 0; i < good.stats.metrics.size(); ++i) {
        EXPECT_EQ(e.stats.metrics[i].first, good.stats.metrics[i].first);
        EXPECT_NEAR(e.stats.metrics[i].second, good.stats.metrics[i].second, 1e-4) << ranks;
      }
      ASSERT_EQ(e.worst.size(), 3u);
      EXPECT_EQ(e.worst[0].id, good.worst[0].id);
    }
    for (const Evaluation& none : evaluate_on(ranks, {0, 1, 2, 3})) {
      EXPECT_EQ(none.bad_samples, 4);
      EXPECT_EQ(none.stats.samples, 0);
      EXPECT_TRUE(none.stats.metrics.empty());
      EXPECT_TRUE(none.worst.empty());
    }
  }
}

TEST(Trainer, LeavesOutBadSamplesTheSameOnAnyNumberOfRanks) {
  config::Config config = small(8);
  config.data.on_bad_sample = "skip";
  config.train.overfit_batches = 2;  // in the order of the file: the first micro-steps of rank 0 are all bad
  std::vector<std::vector<int64_t>> batches = run({.config = config})[0].seen;
  ASSERT_GE(batches[0].size(), 8u);
  const std::set<int64_t> holes(batches[0].begin(), batches[0].begin() + 4);
  config.optimizer.lr = 0.1;
  const RankRun one = run({.config = config, .holes = holes})[0];
  ASSERT_EQ(one.error, "");
  EXPECT_EQ(one.outcome.bad_samples, 4);
  config.train.batch_size = 4;
  for (const RankRun& r : run({.ranks = 2, .config = config, .holes = holes})) {
    ASSERT_EQ(r.error, "");
    EXPECT_EQ(r.outcome.ledger, one.outcome.ledger);
    EXPECT_EQ(r.outcome.bad_samples, 4);
    ASSERT_EQ(r.steps.size(), one.steps.size());
    for (size_t i = 0; i < one.steps.size(); ++i)
      EXPECT_NEAR(r.steps[i].loss, one.steps[i].loss, 1e-5 * one.steps[i].loss);
    for (size_t i = 0; i < one.weights.size(); ++i) EXPECT_TRUE(at::allclose(r.weights[i], one.weights[i], 1e-4, 1e-6));
  }
}

TEST(Trainer, AValidationSplitWithoutAReadableSampleIsNoMetric) {
  config::Config config = small(4);
  config.data.on_bad_sample = "skip";
  config.train.patience = 3;
  config.train.epochs = 2;
  for (const RankRun& r : run({.ranks = 2, .config = config, .holes = {17, 18, 19, 20, 21}})) {
    EXPECT_EQ(r.error, "");
    EXPECT_EQ(r.outcome.steps, 6);
    EXPECT_TRUE(r.outcome.validation.empty());
    EXPECT_TRUE(std::isnan(r.outcome.best));
  }
}

// Of each evaluation its step and what it found.
using Evaluations = std::vector<std::pair<int64_t, std::vector<std::pair<std::string, double>>>>;
Evaluations evaluations(std::initializer_list<RankRun> parts) {
  Evaluations all;
  for (const RankRun& part : parts) {
    for (const monitoring::EvalStats& e : part.evals) all.emplace_back(e.step, e.metrics);
  }
  return all;
}

// A whole run against one that is stopped in the midst and resumed: the same weights, bit by bit, and the same reports.
void expect_resumes_exactly(const Scenario& given, int64_t stop_after) {
  const testing::TempDir folder;
  Scenario setup = given;
  setup.config.run.name = "toy";
  setup.config.checkpoint.every = {};
  Scenario first = setup, second = setup;
  setup.folder = folder / "whole";
  first.folder = second.folder = folder / "parts";
  const RankRun whole = run(setup)[0];
  ASSERT_EQ(whole.error, "");
  first.stop_at_rank = setup.ranks - 1;
  first.stop_after = stop_after;
  second.resume = true;
  const RankRun stopped = run(first)[0];
  ASSERT_EQ(stopped.error, "");
  ASSERT_EQ(stopped.outcome.exit_code, kExitStoppedOnRequest);
  ASSERT_EQ(stopped.outcome.steps, stop_after);
  const RankRun resumed = run(second)[0];
  ASSERT_EQ(resumed.error, "");
  ASSERT_EQ(resumed.weights.size(), whole.weights.size());
  for (size_t i = 0; i < whole.weights.size(); ++i) EXPECT_TRUE(at::equal(whole.weights[i], resumed.weights[i])) << i;
  EXPECT_EQ(resumed.outcome.ledger, whole.outcome.ledger);
  EXPECT_EQ(evaluations({stopped, resumed}), evaluations({whole}));
  EXPECT_EQ(resumed.outcome.validation, whole.outcome.validation);
  EXPECT_EQ(resumed.outcome.best, whole.outcome.best);
  EXPECT_EQ(resumed.outcome.reason, whole.outcome.reason);
}

TEST(Trainer, ResumesInTheRightPhaseWithTheMomentsOfBoth) {
  for (const int ranks : {1, 2}) {
    Scenario setup{.ranks = ranks, .config = small(4), .toy = {.phases = true}};
    setup.config.optimizer.lr = 0.1;
    setup.config.schedule.name = "constant";
    setup.config.train.epochs = 5;
    expect_resumes_exactly(setup, 4);  // in the first odd epoch
    expect_resumes_exactly(setup, 9);  // at the end of the second even one, which is evaluated
  }
}

// The run is done and resumed: what is left is to say so, with what the checkpoint holds.
TEST(Trainer, ResumesAFinishedRunOfTwoPhases) {
  const testing::TempDir folder;
  Scenario setup{.ranks = 2, .config = small(4), .toy = {.phases = true}, .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.checkpoint.every = {};
  const RankRun whole = run(setup)[0];
  ASSERT_EQ(whole.error, "");
  setup.resume = true;
  for (const RankRun& again : run(setup)) {
    ASSERT_EQ(again.error, "");
    EXPECT_EQ(again.outcome.own_steps, 0);
    EXPECT_EQ(again.outcome.ledger, whole.outcome.ledger);
    EXPECT_EQ(again.outcome.best, whole.outcome.best);
    for (size_t i = 0; i < whole.weights.size(); ++i) EXPECT_TRUE(at::equal(whole.weights[i], again.weights[i])) << i;
  }
}

TEST(Trainer, EachPhaseTrainsItsOwnParameters) {
  Scenario setup{.config = small(8), .toy = {.phases = true}};
  setup.config.optimizer.lr = 0.1;
  setup.config.train.epochs = 1;
  const RankRun even = run(setup)[0];
  EXPECT_FALSE(at::equal(even.weights[0], at::zeros({3})));
  EXPECT_TRUE(at::equal(even.weights[1], at::zeros({3})));
  setup.config.train.epochs = 2;
  setup.config.schedule.name = "constant";
  const RankRun both = run(setup)[0];
  EXPECT_FALSE(at::equal(both.weights[1], at::zeros({3})));
}

TEST(Trainer, ResumesAveragedWeightsAndWatchesBitByBit) {
  Scenario setup{.config = small(4)};
  setup.config.optimizer.lr = 0.3;
  setup.config.train.ema = 0.9;
  setup.config.train.patience = 50;
  setup.config.schedule.name = "plateau";
  setup.config.schedule.patience = 0;
  setup.config.schedule.threshold = 0.5;
  setup.config.train.epochs = 6;
  for (const int64_t stop_after : {6, 7}) expect_resumes_exactly(setup, stop_after);  // at an evaluation, and beyond
  setup.config.train.eval_every = {.steps = 1};
  expect_resumes_exactly(setup, 7);
}

// The stop comes when the last evaluation before an early stop is due.
TEST(Trainer, AnEvaluationThatAStopLeftOutEndsTheResumedRun) {
  Scenario setup{.config = small(4), .toy = {.fault = ToyTask::Fault::kNoProgress}};
  setup.config.train.patience = 2;
  setup.config.train.epochs = 100;
  expect_resumes_exactly(setup, 9);
}

// What is due by the clock is no function of the step: it is made up all the same.
TEST(Trainer, MakesUpAnEvaluationByTimeThatAStopLeftOut) {
  const testing::TempDir folder;
  Scenario setup{.config = small(4), .stop_at_rank = 0, .stop_after = 1, .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.train.eval_every = {.minutes = 1e-9};
  const RankRun stopped = run(setup)[0];
  EXPECT_TRUE(stopped.evals.empty());
  setup.config.train.eval_every = {.epochs = 100};
  setup.stop_at_rank = -1;
  setup.resume = true;
  const RankRun resumed = run(setup)[0];
  ASSERT_EQ(resumed.error, "");
  ASSERT_EQ(resumed.evals.size(), 2u) << "what was left out, and the end";
  EXPECT_EQ(resumed.evals[0].step, 1);
}

TEST(Trainer, TheBestOfAnEvaluationThatIsMadeUpIsKept) {
  const testing::TempDir folder;
  Scenario setup{.config = small(4), .stop_at_rank = 0, .stop_after = 3, .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.checkpoint = {.every = {.steps = 1}, .keep_last = 1, .keep_best = true};
  setup.config.train.epochs = 3;
  setup.config.optimizer.lr = 0;
  ASSERT_EQ(run(setup)[0].error, "");
  setup.stop_at_rank = -1;
  setup.resume = true;
  ASSERT_EQ(run(setup)[0].error, "");
  EXPECT_TRUE(std::filesystem::exists(folder / "step_00000003"));
}

TEST(Trainer, AnotherMetricIsNotComparedWithTheOldOne) {
  const testing::TempDir folder;
  Scenario setup{.config = small(4), .stop_at_rank = 0, .stop_after = 4, .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.train.metric = "score";  // below zero: no error is better
  const RankRun stopped = run(setup)[0];
  ASSERT_LT(stopped.outcome.best, 0);
  setup.config.train.metric = "error";
  setup.stop_at_rank = -1;
  setup.resume = true;
  const RankRun resumed = run(setup)[0];
  ASSERT_EQ(resumed.error, "");
  EXPECT_EQ(resumed.outcome.metric, "error");
  EXPECT_EQ(resumed.outcome.best, resumed.outcome.validation[1].second);
}

// Skips of a run's former life are no news: the row that ends a run begins anew.
TEST(Trainer, CountsSkippedStepsFromWhereItResumed) {
  const testing::TempDir folder;
  Scenario setup{.config = small(8),
                 .toy = {.fault = ToyTask::Fault::kNotFinite},
                 .stop_at_rank = 0,
                 .stop_after = 2,
                 .folder = folder.path()};
  setup.config.run.name = "toy";
  setup.config.train.epochs = 100;
  ASSERT_EQ(run(setup)[0].error, "");
  setup.stop_at_rank = -1;
  setup.resume = true;
  const RankRun resumed = run(setup)[0];
  EXPECT_EQ(resumed.error_code, 79);
  EXPECT_EQ(resumed.steps.size(), 50u);
}

TEST(Trainer, ValidatesAveragedWeights) {
  Scenario setup{.config = small(8)};
  setup.config.optimizer.lr = 0.3;
  setup.config.train.epochs = 3;
  const RankRun plain = run(setup)[0];
  setup.config.train.ema = 0.99;
  const RankRun averaged = run(setup)[0];
  for (size_t i = 0; i < plain.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(plain.weights[i], averaged.weights[i])) << "the run itself is the same";
  }
  EXPECT_NE(plain.outcome.validation[1].second, averaged.outcome.validation[1].second);
}

TEST(Trainer, FreezesParametersByName) {
  Scenario setup{.config = small(8)};
  setup.config.optimizer.lr = 0.1;
  setup.config.model.freeze = "bias";
  const RankRun r = run(setup)[0];
  EXPECT_TRUE(at::equal(r.weights[1], at::zeros({3})));
  EXPECT_FALSE(at::equal(r.weights[0], at::zeros({3})));
  setup.config.model.freeze = "*";
  EXPECT_THAT(run(setup)[0].error, HasSubstr("nothing is left to train"));
}

// One step of plain gradient descent is the gradient.
TEST(Trainer, ClipsByValueAndByNorm) {
  Scenario setup{.config = small(8), .precision = Precision::kFp64};
  setup.config.train.max_steps = 1;
  setup.config.optimizer = {.name = "sgd", .lr = 1, .weight_decay = 0, .momentum = 0};
  setup.config.schedule.name = "constant";
  setup.config.schedule.warmup_steps = 0;
  const auto moved = [&] {
    const std::vector<at::Tensor> weights = run(setup)[0].weights;  // from zero, the bias at half the rate
    return at::cat({weights[0], 2 * weights[1]});
  };
  const at::Tensor gradient = moved();
  const double norm = gradient.norm().item<double>(), most = gradient.abs().max().item<double>();
  ASSERT_GT(most, 0);
  setup.config.optimizer.clip_value = most / 2;
  EXPECT_TRUE(at::allclose(moved(), gradient.clamp(-most / 2, most / 2), 1e-12, 0));
  setup.config.optimizer.clip_value = 0;
  setup.config.optimizer.clip_norm = norm / 3;
  EXPECT_TRUE(at::allclose(moved(), gradient * (norm / 3 / (norm + 1e-6)), 1e-12, 0));
}

// Promise 2 with batch norm: over equal numbers of micro-steps. The tail of one sample leaves ranks without any.
TEST(Trainer, SharedBatchStatisticsMakeManyRanksEqualOne) {
  Scenario setup{.config = small(8), .toy = {.batch_norm = true}, .precision = Precision::kFp64};
  setup.config.train.sync_batch_norm = true;
  setup.config.train.epochs = 4;
  setup.config.optimizer.lr = 0.05;
  setup.config.optimizer.name = "sgd";
  const RankRun one = run(setup)[0];
  ASSERT_EQ(one.error, "");
  for (const int ranks : {2, 3, 4}) {
    setup.ranks = ranks;
    for (const RankRun& other : run(setup)) {
      ASSERT_EQ(other.error, "");
      for (size_t step = 0; step < one.steps.size(); ++step) {
        EXPECT_EQ(other.steps[step].samples, one.steps[step].samples) << "of all ranks, also on one without any";
      }
      for (size_t i = 0; i < one.weights.size(); ++i) {
        const at::Tensor& a = one.weights[i];
        EXPECT_LE((a - other.weights[i]).abs().max().item<double>(),
                  1e-12 * std::max(1.0, a.abs().max().item<double>()))
            << ranks << " ranks, tensor " << i;
      }
      EXPECT_NEAR(other.outcome.validation[1].second, one.outcome.validation[1].second, 1e-9);
    }
  }
  setup.ranks = 3;
  setup.config.train.sync_batch_norm = false;
  EXPECT_GT((one.weights[0] - run(setup)[0].weights[0]).abs().max().item<double>(), 1e-9)
      << "the test would not see a difference";
}

}  // namespace
}  // namespace dtrain::train

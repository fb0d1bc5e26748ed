// The loop, with threads as ranks and a store in memory: what it consumes, what it reports, and how
// it ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "core/log.h"
#include "support/temp_dir.h"
#include "text/strings.h"
#include "train/device_failure.h"
#include "train/evaluate.h"
#include "train/schedule.h"
#include "train/toy_run.h"

namespace dtrain::train {
namespace {

using measure::Quantity;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Trainer, ConsumesTheSameOnAnyNumberOfRanks) {
  const RankRun one = run(1, small(8))[0];
  EXPECT_EQ(one.result.steps, 6);
  ASSERT_EQ(one.steps.size(), 6u);
  EXPECT_EQ(one.steps[2].samples, 1) << "the tail";
  EXPECT_EQ(one.evals.size(), 2u);
  for (const int ranks : {2, 3, 4}) {
    const std::vector<RankRun> others = run(ranks, small(3));
    for (const RankRun& other : others) {
      EXPECT_EQ(other.result.best, others[0].result.best)
          << "decided from reduced values: the same bits on every rank";
      EXPECT_EQ(other.result.ledger, one.result.ledger) << ranks;
      ASSERT_EQ(other.steps.size(), 6u);
      for (size_t step = 0; step < 6; ++step) {
        EXPECT_EQ(other.steps[step].ledger, one.steps[step].ledger);
        EXPECT_EQ(other.steps[step].samples, one.steps[step].samples);
        EXPECT_NEAR(other.steps[step].loss, one.steps[step].loss, 1e-5 * one.steps[step].loss);
      }
      EXPECT_NEAR(other.result.validation[1].second, one.result.validation[1].second, 1e-4);
      EXPECT_NEAR(other.result.best, one.result.best, 1e-4);
    }
  }
}

TEST(Trainer, SaysHowMuchOfTheFirstEpochWasComparedIfItWasNotAll) {
  const auto lines_of = [](std::chrono::milliseconds checksum_time) {
    std::vector<std::string> lines;
    const log::LogTap tap([&](std::string_view line) { lines.emplace_back(line); });
    EXPECT_EQ(run({.config = small(8), .checksum_time = checksum_time})[0].error, "");
    return join(lines, "\n");
  };
  const std::string partly = "% of the samples of epoch 1 were compared with their checksums";
  EXPECT_THAT(lines_of(std::chrono::milliseconds(30)), HasSubstr(partly))
      << "one takes more than all may at the start";
  EXPECT_THAT(lines_of(std::chrono::milliseconds(0)), Not(HasSubstr(partly)));
}

TEST(Trainer, ARequestToStopOnOneRankStopsAll) {
  config::Config config = small(4);
  config.train.epochs = 100;
  const std::vector<RankRun> runs = run(3, config, ToyTask::Fault::kNone, /*stop_at_rank=*/1);
  for (const RankRun& r : runs) {
    EXPECT_EQ(r.result.exit_code, kExitStoppedOnRequest);
    EXPECT_EQ(r.result.steps, 2) << "a request of one step boundary is granted at the next";
  }
}

TEST(Trainer, SavesOnceWhenTheMinutesAreOver) {
  const testing::TempDir folder;
  config::Config config = small(4);
  config.run.name = "toy";
  config.train.epochs = 20;
  config.train.eval_every = {.epochs = 20};
  config.checkpoint.every = {.minutes = 0.05 / 60};  // about four steps of the toy's clock
  const std::vector<RankRun> runs = run(2, config, ToyTask::Fault::kNone, -1, folder.path());
  const std::vector<int64_t>& saved = runs[0].saved;
  EXPECT_EQ(saved, runs[1].saved);
  ASSERT_GE(saved.size(), 3u);
  for (size_t i = 1; i + 1 < saved.size(); ++i)
    EXPECT_GT(saved[i], saved[i - 1] + 1) << "of the same request";
}

TEST(Trainer, OutOfMemorySaysWhichBatchSizeToUse) {
  config::Config config = small(8);
  const RankRun r = run(1, config, ToyTask::Fault::kOutOfMemory)[0];
  EXPECT_EQ(r.error_code, 69);
  EXPECT_THAT(r.error, HasSubstr("micro-batch of 8 samples"));
  EXPECT_THAT(r.error, HasSubstr("--batch-size 4 --accumulate 2"));
  EXPECT_THAT(r.error, HasSubstr("peak "));
}

TEST(Trainer, OutOfMemoryOfALibraryNamesTheLibrary) {
  const RankRun r = run(1, small(8), ToyTask::Fault::kLibraryOutOfMemory)[0];
  EXPECT_EQ(r.error_code, 69);
  EXPECT_THAT(
      r.error,
      HasSubstr("with a micro-batch of 8 samples (CUDA error: CUBLAS_STATUS_ALLOC_FAILED when "));
  EXPECT_THAT(r.error, HasSubstr("--batch-size 4 --accumulate 2"));
  EXPECT_EQ(r.device_failed, "") << "the GPU still works";
}

TEST(Trainer, OutOfMemoryWithOneSampleDoesNotAdviseTheSameAgain) {
  config::Config config = small(1);
  const RankRun r = run(1, config, ToyTask::Fault::kOutOfMemory)[0];
  EXPECT_EQ(r.error_code, 69);
  EXPECT_THAT(r.error, HasSubstr("micro-batch of 1 sample ("));
  EXPECT_THAT(r.error, HasSubstr("--model.checkpointing true"));
  EXPECT_THAT(r.error, ::testing::Not(HasSubstr("--batch-size")));
}

TEST(Trainer, AGpuThatFailsIsReportedWithStepAndPhaseBeforeAnythingIsDestroyed) {
  const RankRun r = run(1, small(8), ToyTask::Fault::kDeviceLost)[0];
  EXPECT_EQ(r.error_code, 69);
  EXPECT_THAT(
      r.error,
      HasSubstr("has failed in step 3, phase forward: CUDA error: illegal memory access. "));
  EXPECT_THAT(r.error, HasSubstr("--resume auto continues"));
  EXPECT_EQ(r.device_failed, r.error) << "the process can end while everything lives";
}

// The first launch after the kernel that failed may be one of our own.
TEST(Trainer, AGpuThatFailsIsReportedAlikeByOurOwnLaunches) {
  const RankRun forward = run(1, small(8), ToyTask::Fault::kOwnLaunchFails)[0];
  EXPECT_EQ(forward.error_code, 69);
  EXPECT_THAT(forward.error, HasSubstr("has failed in step 3, phase forward: CUDA error"));
  EXPECT_THAT(forward.error, HasSubstr("--resume auto continues"));
  EXPECT_EQ(forward.device_failed, forward.error);
  const RankRun backward = run(1, small(8), ToyTask::Fault::kOwnLaunchFailsInBackward)[0];
  EXPECT_EQ(backward.error_code, 69);
  EXPECT_THAT(backward.error, HasSubstr("has failed in step 2, phase backward: CUDA error"));
  EXPECT_EQ(backward.device_failed, backward.error);
}

TEST(Trainer, AGpuThatFailsInAnEvaluationIsReportedAfterTheLastStep) {
  const RankRun r = run(1, small(8), ToyTask::Fault::kDeviceLostInEvaluation)[0];
  EXPECT_EQ(r.error_code, 69);
  EXPECT_THAT(
      r.error,
      HasSubstr("has failed after step 3, phase eval: CUDA error: illegal memory access. "));
  EXPECT_EQ(r.device_failed, r.error);
}

// After a kernel that failed, cuBLAS says that it cannot be initialized, or that it cannot run.
TEST(DeviceFailure, OfALibraryIsThatOfTheGpuOnceNothingWorksOnIt) {
  const BatchArithmetic batches = batch_arithmetic(small(8).train, 1, 17);
  const auto failure = [&](const char* text, bool works) {
    const c10::Error error({__func__, __FILE__, __LINE__}, text);
    return device_failure(error, batches, {{at::kCUDA, 1}, /*memory_bytes=*/8e9, works},
                          "in step 2");
  };
  for (const char* text :
       {"CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"}) {
    const std::optional<DeviceFailure> lost = failure(text, /*works=*/false);
    ASSERT_TRUE(lost) << text;
    EXPECT_TRUE(lost->lost);
    EXPECT_THAT(lost->error.what(), HasSubstr(std::string("cuda:1 has failed in step 2: ") + text));
  }
  EXPECT_FALSE(failure("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
                       /*works=*/true));
}

TEST(DeviceFailure, OfOurOwnLaunchIsThatOfTheGpuOrOfItsMemory) {
  const BatchArithmetic batches = batch_arithmetic(small(8).train, 1, 17);
  const auto failure = [&](kernels::LaunchResult result) {
    try {
      kernels::check_launch(result);
    } catch (const c10::Error& error) {
      return device_failure(error, batches, {.device = at::kCPU, .memory_bytes = 8e9},
                            "before the first step");
    }
    return std::optional<DeviceFailure>();
  };
  const std::optional<DeviceFailure> lost = failure(ToyTask::kIllegalAddress);
  ASSERT_TRUE(lost);
  EXPECT_TRUE(lost->lost);
  EXPECT_THAT(lost->error.what(), HasSubstr("has failed before the first step: CUDA error"));
  EXPECT_THAT(lost->error.what(), HasSubstr("--resume auto continues"));
  const std::optional<DeviceFailure> full = failure(/*cudaErrorMemoryAllocation*/ 2);
  ASSERT_TRUE(full);
  EXPECT_FALSE(full->lost);
  EXPECT_THAT(full->error.what(), HasSubstr("--batch-size 4 --accumulate 2"));
}

TEST(Trainer, OutOfMemoryNamesABatchThatOccurs) {
  config::Config config = small(100);
  config.train.global_batch = 0;  // 100, of 17 samples
  const RankRun r = run(1, config, ToyTask::Fault::kOutOfMemory)[0];
  EXPECT_THAT(r.error, HasSubstr("micro-batch of 17 samples"));
  EXPECT_THAT(r.error, HasSubstr("--batch-size 8 --accumulate 13 --train.global_batch 100, "));
}

TEST(Trainer, ReportsWhatItsCommunicatorsCarried) {
  const std::vector<RankRun> runs = run(2, small(4));
  for (const RankRun& r : runs) {
    ASSERT_GE(r.steps.size(), 2u);
    const auto bytes = [&](size_t step, const std::string& communicator,
                           const std::string& operation) {
      for (const monitoring::CollectiveStats& c : r.steps[step].collectives) {
        if (c.communicator == communicator && c.operation == operation) return c.bytes;
      }
      return 0.0;
    };
    const double step_bytes = static_cast<double>(r.steps[1].bytes_reduced);
    EXPECT_GT(step_bytes, 0);
    // The toy's world is one communicator for everything, so decisions are in it too.
    EXPECT_GE(bytes(1, "gradients", "all_reduce") - bytes(0, "gradients", "all_reduce"),
              step_bytes);
    EXPECT_GT(bytes(0, "host", "all_gather"), 0);
    EXPECT_EQ(bytes(1, "statistics", "all_reduce"), 0) << "none is shared";
    const measure::Values& values = r.steps[1].values;
    EXPECT_GT(values[Quantity::kMemoryReserved], 0);
    EXPECT_GE(values[Quantity::kMemoryPeak], values[Quantity::kMemory]);
  }
}

TEST(Trainer, AGradientThatStaysNotFiniteEndsTheRunOnAllRanks) {
  config::Config config = small(8);
  config.train.epochs = 100;
  for (const RankRun& r : run(2, config, ToyTask::Fault::kGradientNotFinite)) {
    EXPECT_EQ(r.error_code, 79) << r.error;
    EXPECT_THAT(r.error, HasSubstr("not finite in the last 50 steps"));
  }
}

// Between two step lines such states would replace every good checkpoint.
TEST(Trainer, AStateAfterALossThatIsNotFiniteIsNotSaved) {
  const testing::TempDir folder;
  Scenario setup{.config = small(8), .toy = {.fault = ToyTask::Fault::kOneBadSample}};
  setup.config.run.name = "r";
  setup.config.checkpoint.every = {.steps = 1};
  setup.config.train.epochs = 4;
  setup.log_every = {};
  RankRun r;
  while (r.seen.size() < 2 &&
         setup.config.train.seed < 10) {  // the first step is always a logging one
    ++setup.config.train.seed;
    setup.folder = folder / std::to_string(setup.config.train.seed);
    r = run(setup)[0];
  }
  EXPECT_EQ(r.error_code, 79);
  EXPECT_THAT(r.error, HasSubstr("memory.h5#5 (sample_5.png)"));
  const auto bad = std::find_if(r.seen.begin(), r.seen.end(), [](const std::vector<int64_t>& ids) {
    return std::find(ids.begin(), ids.end(), ToyTask::kBadSample) != ids.end();
  });
  EXPECT_EQ(bad, r.seen.end() - 1) << "the step with the bad sample was the last";
  EXPECT_EQ(r.saved.size(), r.seen.size() - 1);
  EXPECT_GT(r.seen.size(), 1u);
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
    EXPECT_EQ(r.result.steps, 4 * 3)
        << "the first evaluation is the best, and three more do not improve";
    EXPECT_EQ(r.result.exit_code, 0);
    EXPECT_THAT(r.result.reason,
                HasSubstr("3 evaluations without a better error (best 1.0000 at step 3)"));
  }
}

TEST(Trainer, AnEvaluationCountsOnlyInPhasesThatMoveItsMetric) {
  Scenario setup{
      .config = small(8),
      .toy = {
          .fault = ToyTask::Fault::kNoProgress, .phases = true, .odd_phase_moves_metrics = true}};
  setup.config.train.epochs = 6;  // even, odd, even, ...; the metric never changes
  setup.config.train.patience = 1;
  setup.config.schedule.name = config::ScheduleName::kPlateau;
  setup.config.schedule.patience = 0;
  setup.config.schedule.gamma = 0.5;
  setup.config.optimizer.lr = 0.01;
  const RankRun r = run(setup)[0];
  EXPECT_EQ(r.result.steps, 4 * 3)
      << "the first evaluation that counts is the second, the next one the fourth";
  EXPECT_EQ(r.steps[9].learning_rate, 0.01);
  setup.config.train.patience = 2;
  EXPECT_EQ(run(setup)[0].result.steps, 6 * 3) << "patience starts again with each phase";
}

TEST(Trainer, WatchesTheMetricThatIsNamedInItsDirection) {
  config::Config config = small(8);
  config.optimizer.lr = 0.5;
  config.train.epochs = 5;
  const RankRun error = run({.config = config})[0];
  config.train.metric = "score";
  const RankRun score = run({.config = config})[0];
  EXPECT_EQ(score.result.metric, "score");
  EXPECT_EQ(score.result.best, -error.result.best);
  config.train.metric = "eror";
  EXPECT_THAT(run({.config = config})[0].error,
              HasSubstr("'eror' is none of this task's metrics: loss, error, score"));
}

TEST(Trainer, ThePlateauScheduleActsOnEvaluations) {
  config::Config config = small(8);
  config.schedule.name = config::ScheduleName::kPlateau;
  config.schedule.patience = 1;
  config.schedule.gamma = 0.5;
  config.optimizer.lr = 0.01;
  config.train.epochs = 6;
  const RankRun r = run(1, config, ToyTask::Fault::kNoProgress)[0];
  std::vector<double> rates;
  for (size_t epoch = 0; epoch < 6; ++epoch)
    rates.push_back(r.steps[3 * epoch].learning_rate / 0.01);
  EXPECT_THAT(rates, ::testing::ElementsAre(1, 1, 1, 0.5, 0.5, 0.25));
}

TEST(Trainer, NoOtherScheduleActsOnEvaluations) {
  config::Config config = small(8);
  config.schedule.patience = 0;
  config.schedule.final_lr_ratio = 0.5;
  config.optimizer.lr = 0.01;
  config.train.epochs = 6;
  for (const auto name : {config::ScheduleName::kConstant, config::ScheduleName::kCosine}) {
    config.schedule.name = name;
    const RankRun r = run(1, config, ToyTask::Fault::kNoProgress)[0];
    ASSERT_EQ(r.steps.size(), 18u);
    for (const monitoring::StepStats& s : r.steps) {
      EXPECT_EQ(s.learning_rate, learning_rate(config.schedule, 0.01, s.step - 1, 18, 3))
          << name_of(name) << ", step " << s.step;
    }
  }
}

TEST(Trainer, OverfitsTheSameBatchesAgainAndAgain) {
  config::Config config = small(4);
  config.train.overfit_batches = 2;
  config.train.epochs = 3;
  const RankRun r = run({.config = config})[0];
  ASSERT_EQ(r.seen.size(), 12u) << "3 epochs of 2 steps of 2 micro-batches";
  for (size_t i = 4; i < r.seen.size(); ++i) EXPECT_EQ(r.seen[i], r.seen[i % 4]);
  EXPECT_NE(r.seen[0], r.seen[2]);
  EXPECT_EQ(r.evals[0].samples, 16) << "validated on the same samples";
}

// Rank 0 evaluates the lowest ids, which are all bad: it has no sample left, and still takes part.
TEST(Evaluation, LeavesOutBadSamplesEvenIfARankHasNoOther) {
  const HoledStore store(12, {0, 1, 2, 3});
  const auto evaluate_on = [&](int ranks, const std::vector<int64_t>& ids) {
    std::vector<Evaluation> all(static_cast<size_t>(ranks));
    dist::run_thread_world(ranks, [&](dist::MeteredCommunicator& comm) {
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
  config.data.on_bad_sample = config::OnBadSample::kSkip;
  // In the order of the file: the first micro-steps of rank 0 are all bad
  config.train.overfit_batches = 2;
  std::vector<std::vector<int64_t>> batches = run({.config = config})[0].seen;
  ASSERT_GE(batches[0].size(), 8u);
  const std::set<int64_t> holes(batches[0].begin(), batches[0].begin() + 4);
  config.optimizer.lr = 0.1;
  const RankRun one = run({.config = config, .holes = holes})[0];
  ASSERT_EQ(one.error, "");
  EXPECT_EQ(one.result.bad_samples, 4);
  config.train.batch_size = 4;
  for (const RankRun& r : run({.ranks = 2, .config = config, .holes = holes})) {
    ASSERT_EQ(r.error, "");
    EXPECT_EQ(r.result.ledger, one.result.ledger);
    EXPECT_EQ(r.result.bad_samples, 4);
    ASSERT_EQ(r.steps.size(), one.steps.size());
    for (size_t i = 0; i < one.steps.size(); ++i)
      EXPECT_NEAR(r.steps[i].loss, one.steps[i].loss, 1e-5 * one.steps[i].loss);
    for (size_t i = 0; i < one.weights.size(); ++i)
      EXPECT_TRUE(at::allclose(r.weights[i], one.weights[i], 1e-4, 1e-6));
  }
}

TEST(Trainer, CountsABadSampleOnceEvenIfEachRankMeetsIt) {
  config::Config config = small(2);
  config.data.on_bad_sample = config::OnBadSample::kSkip;
  config.train.epochs = 6;
  for (const int ranks : {1, 2, 4}) {
    for (const RankRun& r : run({.ranks = ranks, .config = config, .holes = {2, 3, 11, 20}})) {
      EXPECT_EQ(r.result.bad_samples, 3) << "of the training split, on " << ranks;
      EXPECT_EQ(r.steps.back().bad_samples, 3);
    }
  }
}

TEST(Trainer, AStepWhoseSamplesAreAllLeftOutIsNotAnOverflow) {
  config::Config config = small(1);
  config.data.on_bad_sample = config::OnBadSample::kSkip;
  config.train.global_batch = 1;
  config.train.epochs = 1;
  std::set<int64_t> holes;
  for (int64_t id = 0; id < 16; ++id) holes.insert(id);  // one of the seventeen is good
  const RankRun r = run({.config = config, .holes = holes})[0];
  EXPECT_EQ(r.error, "");
  EXPECT_EQ(r.result.bad_samples, 16);
  EXPECT_EQ(r.steps.back().values[Quantity::kSkippedSteps], 0);
  EXPECT_TRUE(std::isfinite(r.steps.back().loss));
  holes.insert(16);
  for (const int ranks : {1, 2}) {
    for (const RankRun& none : run({.ranks = ranks, .config = config, .holes = holes})) {
      EXPECT_EQ(none.error_code, 65);
      EXPECT_THAT(none.error, HasSubstr("all 17 training samples were left out"));
    }
  }
}

TEST(Trainer, AValidationSplitWithoutAReadableSampleHasNoMetric) {
  config::Config config = small(4);
  config.data.on_bad_sample = config::OnBadSample::kSkip;
  config.train.patience = 1;
  config.train.epochs = 2;
  for (const RankRun& r : run({.ranks = 2, .config = config, .holes = {17, 18, 19, 20, 21}})) {
    EXPECT_EQ(r.error, "");
    EXPECT_EQ(r.result.steps, 6);
    EXPECT_TRUE(r.result.validation.empty());
    EXPECT_TRUE(std::isnan(r.result.best));
  }
}

TEST(Trainer, ValidatesAveragedWeights) {
  Scenario setup{.config = small(8)};
  setup.config.optimizer.lr = 0.3;
  setup.config.train.epochs = 3;
  const RankRun plain = run(setup)[0];
  setup.config.train.ema = 0.99;
  const RankRun averaged = run(setup)[0];
  for (size_t i = 0; i < plain.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(plain.weights[i], averaged.weights[i]))
        << "averaging does not change the run";
  }
  EXPECT_NE(plain.result.validation[1].second, averaged.result.validation[1].second);
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
  setup.config.optimizer = {
      .name = config::OptimizerName::kSgd, .lr = 1, .weight_decay = 0, .momentum = 0};
  setup.config.schedule.name = config::ScheduleName::kConstant;
  setup.config.schedule.warmup_steps = {};
  const auto moved = [&] {
    // From zero; the bias has half the rate
    const std::vector<at::Tensor> weights = run(setup)[0].weights;
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

// The watchdog does not blame a rank that waits for others in "all_reduce",
// see dist/stall_detector.h.
TEST(Trainer, TellsTheWatchdogOfEachCollectiveThatItWaits) {
  Scenario setup{.ranks = 2, .config = small(4), .toy = {.batch_norm = true}};
  setup.config.train.sync_batch_norm = true;
  setup.config.train.max_steps = 2;
  const std::vector<std::string> step = {"data_wait", "forward",    "all_reduce", "forward",
                                         "backward",  "all_reduce", "backward",   "all_reduce",
                                         "optimizer", "all_reduce"};
  std::vector<std::string> expected = {"all_reduce"};  // requests from before the first step
  // A logging step, which reads sums over ranks
  expected.insert(expected.end(), step.begin(), step.end());
  expected.insert(expected.end(), step.begin(), step.end());
  for (const char* phase : {"eval", "all_reduce", "eval", "all_reduce"})
    expected.emplace_back(phase);
  for (const RankRun& r : run(setup)) EXPECT_EQ(r.places, expected);
}

// Of seven samples one rank has three and two, and the other two, and none in its last micro-step.
// The three samples of the tail are one rank's.
TEST(Trainer, NoRankTrainsOnASingleSample) {
  Scenario setup{.config = small(7), .precision = Precision::kFp64};
  setup.config.train.global_batch = 7;
  setup.config.optimizer.name = config::OptimizerName::kSgd;
  const RankRun one = run(setup)[0];
  setup.ranks = 2;
  setup.config.train.batch_size = 3;
  const std::vector<RankRun> both = run(setup);
  const auto sizes = [](const RankRun& rank) {
    std::vector<size_t> sizes;
    for (const std::vector<int64_t>& ids : rank.seen) sizes.push_back(ids.size());
    return sizes;
  };
  EXPECT_EQ(sizes(both[0]), (std::vector<size_t>{3, 2, 3, 2, 3, 3, 2, 3, 2, 3}));
  EXPECT_EQ(sizes(both[1]), (std::vector<size_t>{2, 2, 2, 2}));
  for (const RankRun& rank : both) {
    ASSERT_EQ(rank.error, "");
    EXPECT_EQ(rank.result.ledger, one.result.ledger);
    for (size_t i = 0; i < one.weights.size(); ++i) {
      EXPECT_TRUE(at::allclose(rank.weights[i], one.weights[i], 1e-12, 1e-12)) << "tensor " << i;
    }
  }
}

// Promise 2 with batch norm, for equal numbers of micro-steps. With a tail of one sample, some
// ranks have none.
TEST(Trainer, SharedBatchStatisticsMakeManyRanksEqualOne) {
  Scenario setup{.config = small(8), .toy = {.batch_norm = true}, .precision = Precision::kFp64};
  setup.config.train.sync_batch_norm = true;
  setup.config.train.epochs = 4;
  setup.config.optimizer.lr = 0.05;
  setup.config.optimizer.name = config::OptimizerName::kSgd;
  const RankRun one = run(setup)[0];
  ASSERT_EQ(one.error, "");
  for (const int ranks : {2, 3, 4}) {
    setup.ranks = ranks;
    for (const RankRun& other : run(setup)) {
      ASSERT_EQ(other.error, "");
      for (size_t step = 0; step < one.steps.size(); ++step) {
        EXPECT_EQ(other.steps[step].samples, one.steps[step].samples)
            << "the sum of all ranks, also on a rank without samples";
      }
      for (size_t i = 0; i < one.weights.size(); ++i) {
        const at::Tensor& a = one.weights[i];
        EXPECT_LE((a - other.weights[i]).abs().max().item<double>(),
                  1e-12 * std::max(1.0, a.abs().max().item<double>()))
            << ranks << " ranks, tensor " << i;
      }
      EXPECT_NEAR(other.result.validation[1].second, one.result.validation[1].second, 1e-9);
    }
  }
  setup.ranks = 3;
  setup.config.train.sync_batch_norm = false;
  EXPECT_GT((one.weights[0] - run(setup)[0].weights[0]).abs().max().item<double>(), 1e-9)
      << "the test would not see a difference";
}

}  // namespace
}  // namespace dtrain::train

// The parts of an update beside the optimizer: clipping, averaged weights, what evaluations decide,
// which samples had a loss that is not finite, and how evaluations add up over ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "support/thread_world.h"
#include "train/bad_loss.h"
#include "train/clip.h"
#include "train/evaluate.h"
#include "train/metric_watch.h"
#include "train/note_losses.h"
#include "train/weight_average.h"

namespace dtrain::train {
namespace {

using ::testing::ElementsAre;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- clipping

TEST(Clip, ByValueThenByNormOfWhatIsLeft) {
  config::OptimizerConfig options;
  options.clip_value = 2;
  options.clip_norm = 1;
  const std::vector<at::Tensor> flat = {at::tensor({3.0, -0.5}), at::tensor({-7.0, 1.0})};
  const at::Tensor factor = clip(flat, norm_of(flat, at::kDouble), options);
  EXPECT_TRUE(at::equal(flat[0], at::tensor({2.0, -0.5})));
  EXPECT_TRUE(at::equal(flat[1], at::tensor({-2.0, 1.0})));
  EXPECT_NEAR(factor.item<double>(), 1 / (std::sqrt(4 + 0.25 + 4 + 1) + 1e-6), 1e-12);
}

TEST(Clip, NothingAskedNothingDone) {
  const std::vector<at::Tensor> flat = {at::tensor({3.0, kNaN})};
  EXPECT_FALSE(clip(flat, norm_of(flat, at::kDouble), {}).defined());
  EXPECT_EQ(flat[0][0].item<double>(), 3);
}

TEST(Clip, BySmallNormLeavesTheGradient) {
  config::OptimizerConfig options;
  options.clip_norm = 10;
  const std::vector<at::Tensor> flat = {at::tensor({3.0, 4.0})};
  EXPECT_EQ(clip(flat, norm_of(flat, at::kDouble), options).item<double>(), 1);
  EXPECT_EQ(norm_of(flat, at::kDouble).item<double>(), 5);
}

// ---- averaged weights

struct OneWeight : torch::nn::Module {
  OneWeight() {
    weight = register_parameter("weight", at::zeros({2}, at::kDouble));
    register_buffer("counter", at::zeros({}, at::kLong));
  }
  void set(double value) {
    const at::NoGradGuard no_grad;
    weight.fill_(value);
  }
  at::Tensor weight;
};

TEST(WeightAverage, CopiesFirstThenDecaysAndSkippedStepsDoNotCount) {
  OneWeight module;
  WeightAverage average(module, 0.75);
  const at::Tensor taken = at::ones({}), skipped = at::zeros({});
  module.set(100);
  average.update(skipped);  // nothing yet
  module.set(8);
  average.update(taken);
  module.set(16);
  average.update(taken);  // 8 + 0.25 * 8
  module.set(1000);
  average.update(skipped);
  module.set(18);
  average.update(taken);  // 10 + 0.25 * 8
  {
    const WeightAverage::Scope scope(average);
    EXPECT_EQ(module.weight[0].item<double>(), 12);
  }
  EXPECT_EQ(module.weight[0].item<double>(), 18) << "the weights themselves come back";
}

// As on a GPU that has failed: every operation on the memory throws.
TEST(WeightAverage, ADeviceThatFailsInAScopeDoesNotEndTheProcess) {
  OneWeight module;
  WeightAverage average(module, 0.5);
  average.update(at::ones({}));
  auto scope = std::make_optional<WeightAverage::Scope>(average);
  module.weight.storage().unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
  EXPECT_THROW(module.weight.detach().zero_(), c10::Error);
  scope.reset();
}

TEST(WeightAverage, GoesOnBitByBitAfterALoad) {
  const at::Tensor taken = at::ones({});
  const auto train = [&](OneWeight& module, WeightAverage& average, int from, int to) {
    for (int step = from; step < to; ++step) {
      module.set(std::sin(step) * 3);
      average.update(taken);
    }
  };
  OneWeight whole, first, second;
  WeightAverage whole_average(whole, 0.9), first_average(first, 0.9), second_average(second, 0.9);
  train(whole, whole_average, 0, 20);
  train(first, first_average, 0, 7);
  checkpoint::NamedTensors saved = first_average.state();
  saved.emplace_back("step", at::ones({}));
  {
    const WeightAverage::Scope scope(first_average);
    second.set(first.weight[0].item<double>());  // what model.safetensors holds
  }
  second_average.load(saved);
  ASSERT_EQ(saved.size(), 1u) << "the rest is the optimizer's";
  EXPECT_EQ(saved[0].first, "step");
  EXPECT_TRUE(at::equal(second.weight, first.weight));
  train(second, second_average, 7, 20);
  const WeightAverage::Scope a(whole_average), b(second_average);
  EXPECT_TRUE(at::equal(whole.weight, second.weight));
}

TEST(WeightAverage, RefusesWeightsOfAnotherShape) {
  OneWeight module;
  WeightAverage average(module, 0.9);
  checkpoint::NamedTensors saved = {{"param.weight", at::zeros({3}, at::kDouble)}};
  EXPECT_THROW(average.load(saved), CheckpointError);
}

TEST(WeightAverage, EndsWhenItIsSwitchedOff) {
  OneWeight module;
  module.set(3);  // the saved average
  WeightAverage average(module, 0);
  checkpoint::NamedTensors saved = {{"param.weight", at::full({2}, 5.0, at::kDouble)},
                                    {"ema_updates", at::ones({})}};
  average.load(saved);
  EXPECT_EQ(module.weight[0].item<double>(), 5);
  EXPECT_TRUE(average.state().empty());
}

// ---- what evaluations decide

TEST(MetricWatch, KnowsDirectionsAndNaN) {
  EXPECT_TRUE(is_better(1, 2, false));
  EXPECT_FALSE(is_better(2, 2, false));
  EXPECT_TRUE(is_better(3, 2, true));
  EXPECT_FALSE(is_better(2.05, 2, true, 0.1));
  EXPECT_FALSE(is_better(1.95, 2, false, 0.1));
  EXPECT_TRUE(is_better(7, kNaN, false)) << "the first";
  EXPECT_FALSE(is_better(kNaN, 2, false));
  EXPECT_FALSE(is_better(kNaN, kNaN, true));
}

TEST(MetricWatch, StopsAfterPatienceEvaluationsWithoutMinDelta) {
  MetricWatch watch;
  const double values[] = {5, 4, 3.95, 3.92, 4.1};
  const bool best[] = {true, true, true, true, false};
  const int64_t without[] = {0, 0, 1, 2, 3};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(watch.update(values[i], 10 * i, false, 0.1), best[i]) << i;
    EXPECT_EQ(watch.evaluations_without_improvement, without[i]) << i;
  }
  EXPECT_EQ(watch.best, 3.92);
  EXPECT_EQ(watch.best_step, 30);
  EXPECT_TRUE(watch.wants_to_stop(3));
  EXPECT_FALSE(watch.wants_to_stop(4));
  EXPECT_FALSE(watch.wants_to_stop(0)) << "0: never";
}

// ---- samples whose loss is not finite

at::Tensor note(const BadLosses& losses, const at::Tensor& per_sample, const at::Tensor& ids) {
  return note_losses(tasks::sample_loss(per_sample), ids,
                     GradScaler({}, /*enabled=*/false, at::kCPU, at::kFloat), /*power_of_two=*/0,
                     {at::zeros({2}, at::kDouble), losses.record()});
}

TEST(NoteLosses, AddsSumAndWeightAndBeginsTheBackwardPass) {
  GradScaler scaler({.init_scale = 1024}, /*enabled=*/true, at::kCPU, at::kFloat);
  const BadLosses losses(at::kCPU);
  const LossNotes notes{at::tensor({10.0, 1.0}), losses.record()};
  const at::Tensor x = at::tensor({1.0f, 2.0f, 4.0f}).requires_grad_();
  const tasks::Loss loss{x * x, at::full({}, 2.5f)};
  const at::Tensor ids = at::arange(3, at::kLong);
  loss.per_sample.backward(note_losses(loss, ids, scaler, /*power_of_two=*/3, notes));
  EXPECT_TRUE(at::equal(notes.sums, at::tensor({31.0, 3.5})));
  EXPECT_TRUE(at::equal(x.grad(), at::tensor({256.0f, 512.0f, 1024.0f}))) << "2x × 1024 / 8";
  EXPECT_THROW(note_losses(loss, at::arange(2, at::kLong), scaler, 3, notes), Error);
  EXPECT_THROW(note_losses({loss.per_sample.to(at::kHalf), loss.weight}, ids, scaler, 3, notes),
               Error);
}

TEST(BadLosses, KeepsTheFirstMicroStepAndGathersOverRanks) {
  dist::run_thread_world(3, [](dist::Communicator& comm) {
    BadLosses losses(at::kCPU);
    note(losses, at::tensor({1.0, 2.0, 3.0}), at::tensor({int64_t{4}, int64_t{5}, int64_t{6}}));
    EXPECT_EQ(losses.gather(comm).bad, 0);
    if (comm.rank() != 1) {
      const int64_t first = comm.rank() * 10;
      note(losses, at::tensor({kNaN, 2.0, kInfinity}),
           at::tensor({first + 1, first + 2, first + 3}));
      note(losses, at::tensor({kNaN}), at::tensor({int64_t{77}}));  // a consequence of it
    }
    const BadLosses::Found found = losses.gather(comm);
    EXPECT_EQ(found.bad, 4);
    EXPECT_EQ(found.of, 6);
    EXPECT_THAT(found.ids, ElementsAre(1, 3, 21, 23));
  });
}

TEST(BadLosses, NamesAFewOfMany) {
  dist::run_thread_world(1, [](dist::Communicator& comm) {
    BadLosses losses(at::kCPU);
    note(losses, at::full({100}, kNaN), at::arange(100, at::kLong));
    const BadLosses::Found found = losses.gather(comm);
    EXPECT_EQ(found.bad, 100);
    EXPECT_EQ(found.ids.size(), 8u);
  });
}

// ---- evaluations

TEST(WorstOf, OrdersByErrorThenIdAndPutsNaNFirst) {
  const auto worst = worst_of({{1, 0.5}, {2, 3}, {3, kNaN}, {4, 3}, {5, kInfinity}, {6, -1}}, 5);
  std::vector<int64_t> ids;
  for (const WorstSample& sample : worst) ids.push_back(sample.id);
  EXPECT_THAT(ids, ElementsAre(3, 5, 2, 4, 1));
  EXPECT_EQ(worst_of({{1, 0.5}}, 10).size(), 1u);
}

TEST(SumOverRanks, ARankWithoutSamplesLearnsOfTheCounts) {
  dist::run_thread_world(3, [](dist::Communicator& comm) {
    tasks::Counts mine;
    if (comm.rank() > 0)
      mine = {{"a", at::full({}, 2.0 * comm.rank(), at::kDouble)},
              {"b", at::ones({2, 3}, at::kDouble)}};
    const tasks::Counts sums = sum_over_ranks(mine, comm);
    ASSERT_EQ(sums.size(), 2u);
    EXPECT_EQ(sums[0].first, "a");
    EXPECT_EQ(sums[0].second.item<double>(), 6);
    EXPECT_TRUE(at::equal(sums[1].second, at::full({2, 3}, 2.0, at::kDouble)));
  });
}

}  // namespace
}  // namespace dtrain::train

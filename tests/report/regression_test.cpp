// The gate between two runs: what counts as worse, and when the numbers do not decide.

#include "report/regression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "report/read_run.h"
#include "run_folder.h"
#include "support/expect_error.h"

namespace dtrain::report {
namespace {

using ::testing::HasSubstr;

Regression judged(double first, double second, double error, double limit = 0.05) {
  return compare("samples/s", {first, error}, {second, error}, /*higher_is_better=*/true, limit);
}

TEST(Regression, IsWorseBeyondTheLimitAndTheNoise) {
  EXPECT_EQ(judged(100, 93, 0.5).judgment, Judgment::kWorse);
  EXPECT_EQ(judged(100, 96, 0.5).judgment, Judgment::kFine) << "within the limit";
  EXPECT_EQ(judged(100, 107, 0.5).judgment, Judgment::kFine) << "better";
  EXPECT_EQ(judged(100, 93, 4).judgment, Judgment::kCannotTell) << "noise 11 %, difference 7 %";
  EXPECT_EQ(judged(100, 99, 4).judgment, Judgment::kCannotTell)
      << "noise 11 % may hide a loss beyond the limit";
  EXPECT_EQ(judged(100, 80, 4).judgment, Judgment::kWorse) << "20 % are more than noise";
  EXPECT_EQ(judged(100, 93, 0.5, 0.10).judgment, Judgment::kFine);
}

TEST(Regression, OfAnErrorIsTheOtherDirection) {
  EXPECT_EQ(compare("mae", {10, 0}, {11, 0}, /*higher_is_better=*/false, 0.05).judgment,
            Judgment::kWorse);
  EXPECT_EQ(compare("mae", {10, 0}, {9, 0}, false, 0.05).judgment, Judgment::kFine);
  EXPECT_EQ(compare("mae", {0, 0}, {0, 0}, false, 0.05).judgment, Judgment::kFine);
  EXPECT_EQ(compare("mae", {0, 0}, {1, 0}, false, 0.05).judgment, Judgment::kWorse)
      << "from perfect to not";
}

TEST(Regression, WithoutValuesOrNoiseTheAnswerIsNotKnown) {
  EXPECT_THAT(compare("a", {kUnknown, 0}, {1, 0}, true, 0.05).reason,
              HasSubstr("the first run has no such value"));
  const Regression short_run = compare("a", {1, 0}, {0.5, kUnknown}, true, 0.05);
  EXPECT_EQ(short_run.judgment, Judgment::kCannotTell);
  EXPECT_THAT(to_text(short_run, 0.05),
              HasSubstr("cannot tell: its noise is not known: the second run is too short"));
}

TEST(Throughput, NoiseKnowsThatNeighborsAreAlike) {
  EXPECT_TRUE(std::isnan(throughput({}).value));
  EXPECT_TRUE(std::isnan(throughput({1, 2, 3}).error));
  EXPECT_DOUBLE_EQ(throughput({5, 5, 5, 5}).error, 0);
  std::vector<double> alternating, drifting;
  for (int i = 0; i < 100; ++i) {
    alternating.push_back(i % 2 == 0 ? 99 : 101);
    drifting.push_back(i < 50 ? 99 : 101);  // the same values in another order
  }
  EXPECT_DOUBLE_EQ(throughput(alternating).value, throughput(drifting).value);
  EXPECT_LT(throughput(alternating).error, 0.01);
  EXPECT_GT(throughput(drifting).error, 0.3);
}

TEST(BestMetric, NoiseIsJitterOrSampling) {
  const MetricKind mae{.name = "mae", .unit = "degrees", .known = true, .higher_is_better = false};
  const MetricKind top1{.name = "top1", .unit = "share", .known = true, .higher_is_better = true};
  const Measured error = best_metric({20, 10, 5, 5.2, 5.0, 5.2}, mae, 400);
  EXPECT_DOUBLE_EQ(error.value, 5);
  EXPECT_NEAR(error.error, 0.2 * 1.4826 / std::sqrt(1.5), 1e-9);
  EXPECT_NEAR(best_metric({9, 8, 7, 6, 5}, mae, 400).error, 0, 1e-9)
      << "steady progress is no noise";
  EXPECT_TRUE(std::isnan(best_metric({5}, mae, 400).error));
  EXPECT_NEAR(best_metric({0.9}, top1, 100).error, 0.03, 1e-9) << "a share of 100 samples";
  EXPECT_DOUBLE_EQ(best_metric({0.5, 0.9, 0.7}, top1, 100).value, 0.9);
}

TEST(Regression, OfTwoRuns) {
  const testing::RunFolder a, b, c;
  a.whole_run();
  b.environment();
  c.environment();
  for (int64_t step = 10; step <= 400; step += 10) {
    b.step(step, 1, 160);
    c.step(step, 1, 320);
    if (step % 100 == 0)
      c.record(str(R"({"kind":"eval","step":)", step,
                   R"(,"split":"val","metrics":{"loss":1,"mae":5},"samples":9})"));
  }
  const RunRecords first = read_run(a.path()), second = read_run(b.path()),
                   third = read_run(c.path());
  const auto all = regressions(first, digest(first), second, digest(second), 0.05);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].judgment, Judgment::kWorse);
  EXPECT_NEAR(all[0].loss, 0.52, 0.03);
  EXPECT_EQ(all[1].reason, "the second run has no such value");
  EXPECT_EQ(all[1].judgment, Judgment::kWorse) << "it ended before its first evaluation";
  EXPECT_THAT(to_text(all[1], 0.05), HasSubstr("WORSE: the second run has no such value"));
  const auto turned = regressions(second, digest(second), first, digest(first), 0.05);
  EXPECT_EQ(turned[1].judgment, Judgment::kCannotTell);
  const auto same = regressions(first, digest(first), third, digest(third), 0.05);
  EXPECT_EQ(same[0].judgment, Judgment::kFine);
  EXPECT_EQ(same[1].name, "val mae");
  EXPECT_LT(same[1].loss, 0) << "5 is better than 6";
  RunRecords other = third;
  other.best_metric = "top1";
  EXPECT_THAT(regressions(first, digest(first), other, digest(other), 0.05)[1].reason,
              HasSubstr("mae and top1"));
}

TEST(Regression, OfDifferentTasksIsRefused) {
  const testing::RunFolder folder;
  folder.environment();
  const RunRecords first = read_run(folder.path());
  RunRecords second = first, older = first, unknown = first;
  second.environment.task = "classify";
  older.environment.task.clear();  // config.yaml says it
  unknown.environment.task.clear();
  unknown.config.clear();
  testing::expect_error<UsageError>([&] { require_same_task(first, second); },
                                    {"--max-regression compares two runs of one task: r is of "
                                     "headpose, r of classify"});
  EXPECT_THROW(require_same_task(second, older), UsageError);
  EXPECT_NO_THROW(require_same_task(first, older));
  EXPECT_NO_THROW(require_same_task(second, unknown)) << "nothing says that they differ";
}

TEST(Regression, ComparesTheBestOfMoreEvaluationsThanAreKept) {
  const testing::RunFolder folder;
  folder.environment();
  for (int64_t step = 1; step <= 5000; ++step) folder.evaluation(step, step == 778 ? 1 : 5);
  const RunRecords run = read_run(folder.path());
  ASSERT_LE(run.evaluations.size(), 2000U);
  EXPECT_DOUBLE_EQ(run.best_value, 1);
  EXPECT_EQ(run.best_step, 778);
  const auto all = regressions(run, digest(run), run, digest(run), 0.05);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_DOUBLE_EQ(all[1].first.value, 1);
}

}  // namespace
}  // namespace dtrain::report

#include "train/report_window.h"

#include <gtest/gtest.h>

namespace dtrain::train {
namespace {

using measure::Phase;
using monitoring::StepStats;
using std::chrono::seconds;

ReportWindow::Time at(int64_t second) { return ReportWindow::Time(seconds(second)); }

PhaseClock::Seconds forward(double value) {
  PhaseClock::Seconds all{};
  all[static_cast<size_t>(Phase::kForward)] = value;
  return all;
}

StepStats step_of(int64_t step, int64_t samples) {
  StepStats stats;
  stats.step = step;
  stats.samples = samples;
  stats.total_steps = 100;
  return stats;
}

TEST(ReportWindow, GivesMeansAndRatesOfItsSteps) {
  ReportWindow window;
  window.begin(10, at(1000), forward(50));
  StepStats stats = step_of(11, 64);
  stats.loader_queue = 4;
  window.add(stats, 0);
  stats = step_of(12, 16);
  stats.loader_queue = 1;
  window.add(stats, 0);
  window.summarize(stats, at(1008), forward(53));
  EXPECT_EQ(window.mean_queue(stats), 2.5);
  EXPECT_EQ(stats.step_seconds, 4);
  EXPECT_EQ(stats.samples_per_second, 10);
  EXPECT_EQ(stats.eta_seconds, 88 * 4);
  EXPECT_EQ(stats.phase_seconds[static_cast<size_t>(Phase::kForward)], 1.5);
  EXPECT_EQ(stats.phase_seconds[static_cast<size_t>(Phase::kBackward)], 0);
  EXPECT_EQ(stats.other_seconds, 2.5);
}

TEST(ReportWindow, ForgetsTheStepsOfTheWindowBefore) {
  ReportWindow window;
  window.begin(0, at(0), forward(0));
  StepStats stats = step_of(1, 1000);
  window.add(stats, 0);
  window.begin(1, at(60), forward(9));
  stats = step_of(2, 8);
  window.add(stats, 0);
  window.summarize(stats, at(62), forward(10));
  EXPECT_EQ(stats.samples_per_second, 4);
  EXPECT_EQ(stats.step_seconds, 2);
  EXPECT_EQ(stats.phase_seconds[static_cast<size_t>(Phase::kForward)], 1);
}

TEST(ReportWindow, GivesEachStepTheBytesReadSinceTheStepBefore) {
  ReportWindow window;
  StepStats stats = step_of(1, 1);
  window.add(stats, 500);
  EXPECT_EQ(stats.loader_bytes, 500);
  window.begin(1, at(1), forward(1));
  window.add(stats, 700);
  EXPECT_EQ(stats.loader_bytes, 200) << "a new window changes nothing";
}

TEST(SkippedSteps, CountsThoseInARow) {
  SkippedSteps skipped;
  EXPECT_EQ(skipped.update(1, 1), 1);
  EXPECT_EQ(skipped.update(4, 4), 3);
  EXPECT_EQ(skipped.in_a_row(), 4);
  EXPECT_EQ(skipped.update(5, 6), 1) << "one of two";
  EXPECT_EQ(skipped.in_a_row(), 0);
  EXPECT_EQ(skipped.update(7, 8), 2);
  EXPECT_EQ(skipped.in_a_row(), 2);
}

TEST(SkippedSteps, DoesNotCountThoseBeforeAResume) {
  SkippedSteps skipped(/*total=*/20, /*step=*/20);
  EXPECT_EQ(skipped.update(21, 21), 1);
  EXPECT_EQ(skipped.in_a_row(), 1);
}

}  // namespace
}  // namespace dtrain::train

#include "monitoring/console_sink.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "core/log.h"
#include "monitoring/sample_stats.h"
#include "os/file_system.h"
#include "support/fake_clock.h"
#include "support/temp_dir.h"

namespace dtrain::monitoring {
namespace {

using testing::sample_eval;
using testing::sample_step;

TEST(StepLine, HasTheDocumentedFormat) {
  EXPECT_EQ(
      step_line(sample_step()),
      "epoch 1/50 | step 120/4078 | loss 0.1234 | lr 1.00e-03 | gnorm 0.52 | 512.3 samples/s | "
      "step 250.0 = data 1.2 + h2d 0.8 + fwd 80.1 + bwd 150.2 + comm 9.7 (exposed) + opt 7.8 + "
      "other 0.2 | mem "
      "8.2/24.0 GiB | "
      "scale 65536 | eta 1h02m");
}

TEST(StepLine, ASmallNormKeepsItsDigits) {
  StepStats s = sample_step();
  s.grad_norm = 0.002134;
  EXPECT_NE(step_line(s).find("| gnorm 0.00213 |"), std::string::npos) << step_line(s);
}

TEST(StepLine, LeavesOutWhatIsUnknown) {
  StepStats s = sample_step();
  s.values[measure::Quantity::kLossScale] = s.grad_norm = s.eta_seconds = StepStats::kUnknown;
  s.phase_seconds[static_cast<size_t>(measure::Phase::kH2d)] = 0;
  EXPECT_EQ(step_line(s),
            "epoch 1/50 | step 120/4078 | loss 0.1234 | lr 1.00e-03 | 512.3 samples/s | "
            "step 250.0 = data 1.2 + fwd 80.1 + bwd 150.2 + comm 9.7 (exposed) + opt 7.8 + other "
            "0.2 | mem 8.2/24.0 GiB");
}

TEST(StepLine, ShowsSavesSkipsAndInfinities) {
  StepStats s = sample_step();
  s.loss = std::numeric_limits<double>::infinity();
  s.values[measure::Quantity::kSkippedSteps] = 3;
  s.phase_seconds[static_cast<size_t>(measure::Phase::kCheckpoint)] = 0.05;
  const std::string line = step_line(s);
  EXPECT_NE(line.find("loss inf"), std::string::npos) << line;
  EXPECT_NE(line.find(" + save 50.0"), std::string::npos) << line;
  EXPECT_NE(line.find("scale 65536 | skipped 3"), std::string::npos) << line;
}

TEST(EvalLine, LossFirstThenTheMetrics) {
  EXPECT_EQ(eval_line(sample_eval(), 50),
            "val epoch 1/50 | loss 0.0123 | mae 6.21 | mae_yaw 7.10 | 1000 samples in 3.2 s");
  EXPECT_EQ(eval_line(sample_eval()),
            "val epoch 1 | loss 0.0123 | mae 6.21 | mae_yaw 7.10 | 1000 samples in 3.2 s");
}

TEST(ProgressBar, FitsAnyTerminal) {
  StepStats s = sample_step();
  s.step = 2039;
  const std::string wide = progress_bar(s, 120);
  EXPECT_NE(wide.find("[####################--------------------] 2039/4078  loss 0.1234"),
            std::string::npos)
      << wide;
  for (const int columns : {1, 10, 40, 60, 80, 200}) {
    EXPECT_LE(static_cast<int>(progress_bar(s, columns).size()), columns);
  }
}

TEST(ConsoleSink, WritesLoggingStepsAndEvaluationsToTheLog) {
  const dtrain::testing::TempDir folder;
  log::open_file((folder / "log.txt").string());
  const auto sink = make_console_sink(/*bar=*/false);
  StepStats s = sample_step();
  sink->record(s);
  s.logging = false;
  sink->record(s);
  sink->record(sample_eval());
  log::close_file();
  EXPECT_EQ(read_text(folder / "log.txt"),
            step_line(sample_step()) + "\n" + eval_line(sample_eval(), 50) + "\n");
}

TEST(ConsoleSink, TheBarIsRedrawnInPlaceAndEndsBeforeAnotherLine) {
  ::testing::internal::CaptureStderr();
  {
    const auto sink = make_console_sink(/*bar=*/true);
    StepStats s = sample_step();
    sink->record(s);
    s.step = s.total_steps;  // the last step is always drawn
    sink->record(s);
    sink->record(sample_eval());
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.rfind("\repoch 1/50 ", 0), 0u) << text;
  EXPECT_NE(text.find("] 4078/4078"), std::string::npos) << text;
  EXPECT_NE(text.find("\nval epoch 1/50 | loss 0.0123"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
}

TEST(ConsoleSink, TheBarIsRedrawnAtMostTenTimesASecond) {
  const dtrain::testing::FakeClock clock;
  ::testing::internal::CaptureStderr();
  {
    const auto sink = make_console_sink(/*bar=*/true, clock);
    StepStats s = sample_step();
    for (s.step = 1; s.step <= 100; ++s.step) {
      sink->record(s);
      clock.advance(std::chrono::milliseconds(10));
    }
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 10) << text;
}

TEST(ConsoleSink, AnEvaluationHasABarOfItsOwn) {
  const dtrain::testing::FakeClock clock;
  ::testing::internal::CaptureStderr();
  {
    const auto sink = make_console_sink(/*bar=*/true, clock);
    sink->record(sample_step());
    clock.advance(std::chrono::seconds(1));
    for (int64_t done = 0; done <= 400; done += 100) {
      sink->progress({"val", done, 400});
      clock.advance(std::chrono::seconds(1));
    }
    sink->record(sample_eval());
    sink->record(sample_step());
    sink->state(LiveState::kFinished);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("\rval ["), std::string::npos) << text;
  EXPECT_NE(text.find("] 200/400  50 %  100.0 samples/s  eta 2.0s"), std::string::npos) << text;
  EXPECT_NE(text.find("\033[Kval epoch 1/50 | loss 0.0123"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\r\033[K")) << "what follows has the whole line" << text;
}

TEST(ConsoleSink, LinesSayNothingOfAnEvaluationThatRuns) {
  ::testing::internal::CaptureStderr();
  make_console_sink(/*bar=*/false)->progress({"val", 100, 400});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace dtrain::monitoring

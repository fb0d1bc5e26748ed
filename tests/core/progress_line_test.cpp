#include "core/progress_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "core/log.h"
#include "support/fake_clock.h"

namespace dtrain {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Last = ProgressLine::Last;

// What appears on stderr while `work` runs.
template <typename Work>
std::string shown(const Work& work) {
  ::testing::internal::CaptureStderr();
  work();
  return ::testing::internal::GetCapturedStderr();
}

TEST(ProgressText, HasShareRateAndTimeLeft) {
  EXPECT_EQ(progress_text({"reading", 1200, 4000}, 2),
            "reading 1 200 of 4 000 (30.0 %), 600.0 samples/s, 4.7s left");
  EXPECT_EQ(progress_text({"reading", 4000, 4000}, 8),
            "reading 4 000 of 4 000 (100.0 %), 500.0 samples/s, took 8.0s");
  EXPECT_EQ(progress_text({"reading", 5, 4000}, 2), "reading 5 of 4 000 (0.1 %)")
      << "too few for a rate";
  EXPECT_EQ(progress_text({"reading", 0, 0}, 2), "reading 0 of 0 (100.0 %)");
  EXPECT_EQ(progress_text({"reading", 3000, 4000, 2000}, 2),
            "reading 3 000 of 4 000 (75.0 %), 500.0 samples/s, 2.0s left")
      << "what was resumed took no time";
}

TEST(ProgressText, CountsBytes) {
  const Progress progress{"verifying", 1 << 30, int64_t{4} << 30, 0, Progress::Unit::kBytes};
  EXPECT_EQ(progress_text(progress, 2),
            "verifying 1.0 GiB of 4.0 GiB (25.0 %), 512.0 MiB/s, 6.0s left");
  EXPECT_EQ(progress_bar(progress, 2, 120),
            "verifying [##########------------------------------] 1.0 GiB/4.0 GiB  25 %  512.0 "
            "MiB/s  eta 6.0s");
}

TEST(ProgressText, OfTimeHasTrialsPerMinuteAndTheMostThatIsLeft) {
  Progress progress{"batch", 100000, 600000, 0, Progress::Unit::kMilliseconds, 15};
  EXPECT_EQ(progress_text(progress, 2),
            "batch 1m40s of 10m00s (16.7 %), 9.0 trials/min, at most 8m20s left");
  EXPECT_EQ(progress_bar(progress, 2, 120),
            "batch [######----------------------------------] 1m40s/10m00s  17 %  9.0 trials/min  "
            "eta at most 8m20s");
  progress.trials = 0;
  EXPECT_EQ(progress_text(progress, 2), "batch 1m40s of 10m00s (16.7 %), at most 8m20s left")
      << "no trial ended yet";
  const Progress end{"tune", 30000, 30000, 0, Progress::Unit::kMilliseconds, 15};
  EXPECT_EQ(progress_text(end, 2), "tune 30.0s of 30.0s (100.0 %), 30.0 trials/min, took 30.0s")
      << "of all stages";
  EXPECT_EQ(progress_bar(end, 2, 120),
            "tune [########################################] 30.0s/30.0s  100 %  30.0 trials/min  "
            "took 30.0s");
  EXPECT_EQ(progress_text({"memory", 0, 600000, 0, Progress::Unit::kMilliseconds}, 0),
            "memory 0.0s of 10m00s (0.0 %), at most 10m00s left");
}

TEST(ProgressBar, FitsAnyTerminal) {
  const Progress progress{"reading", 1000, 4000};
  EXPECT_EQ(progress_bar(progress, 2, 200),
            "reading [##########------------------------------] 1 000/4 000  25 %  500.0 samples/s "
            " eta 6.0s");
  EXPECT_EQ(progress_bar({"reading", 4000, 4000}, 8, 70),
            "reading [#############] 4 000/4 000  100 %  500.0 samples/s  took 8.0s");
  for (const int columns : {0, 1, 10, 40, 60, 80}) {
    EXPECT_LE(progress_bar(progress, 2, columns).size(), static_cast<size_t>(std::max(columns, 1)));
  }
}

TEST(ProgressLine, OnATerminalItIsRewrittenAtMostTenTimesASecond) {
  const testing::FakeClock clock;
  const std::string text = shown([&] {
    ProgressLine line(Last::kOfLongWork, /*terminal=*/true, clock);
    for (int64_t i = 0; i <= 100; ++i) {
      line.show({"reading", i, 100});
      clock.advance(milliseconds(10));
    }
    line.show({"writing", 0, 100});
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 12)
      << text;  // ten, the end, and the next stage
  EXPECT_NE(text.find("100/100  100 %"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << "each stage has a line" << text;
  EXPECT_TRUE(text.ends_with("\n"));
  for (size_t at = text.find('\033'); at != std::string::npos; at = text.find('\033', at + 1)) {
    EXPECT_EQ(text.substr(at, 3), "\033[K") << "no color";
  }
}

TEST(ProgressLine, ElsewhereALineEveryFewSeconds) {
  const testing::FakeClock clock;
  const std::string text = shown([&] {
    ProgressLine line(Last::kOfLongWork, /*terminal=*/false, clock);
    for (int64_t i = 0; i <= 120; ++i) {
      line.show({"reading", i, 120});
      clock.advance(milliseconds(100));
    }
  });
  EXPECT_EQ(text,
            "reading 50 of 120 (41.7 %), 10.0 samples/s, 7.0s left\n"
            "reading 100 of 120 (83.3 %), 10.0 samples/s, 2.0s left\n"
            "reading 120 of 120 (100.0 %), 10.0 samples/s, took 12.0s\n");
}

TEST(ProgressLine, ShortWorkIsSilentUnlessItsEndMatters) {
  const testing::FakeClock clock;
  const auto work = [&](Last last) {
    return shown([&] {
      ProgressLine line(last, /*terminal=*/false, clock);
      line.show({"reading", 0, 100});
      clock.advance(seconds(1));
      line.show({"reading", 100, 100});
    });
  };
  EXPECT_EQ(work(Last::kOfLongWork), "");
  EXPECT_EQ(work(Last::kAlways), "reading 100 of 100 (100.0 %), 100.0 samples/s, took 1.0s\n");
}

TEST(ProgressLine, TheSameStageAgainIsANewOne) {
  const testing::FakeClock clock;
  const std::string text = shown([&] {
    ProgressLine line(Last::kAlways, /*terminal=*/false, clock);
    for (int file = 0; file < 2; ++file) {
      line.show({"verifying", 0, 100});
      clock.advance(seconds(2));
      line.show({"verifying", 100, 100});
    }
  });
  EXPECT_EQ(text,
            "verifying 100 of 100 (100.0 %), 50.0 samples/s, took 2.0s\n"
            "verifying 100 of 100 (100.0 %), 50.0 samples/s, took 2.0s\n");
}

TEST(StatusLine, MessagesArePrintedAboveIt) {
  log::set_rank(0, 1);
  const std::string text = shown([] {
    log::status("[##--]");
    log::plain("a message");
    log::status("");
    log::plain("another");
    log::end_status();
  });
  EXPECT_EQ(text, "\r[##--]\033[K\r\033[Ka message\n[##--]\r\033[Kanother\n");
}

TEST(StatusLine, OtherRanksHaveNone) {
  log::set_rank(1, 2);
  EXPECT_EQ(shown([] {
              log::status("[##--]");
              log::to_console("a line");
              log::end_status();
            }),
            "");
  log::set_rank(0, 1);
}

TEST(LogPrefix, WarningsHaveTheRankAndOfSeveralHostsTheHost) {
  const auto warned = [] { return shown([] { log::warning("slow"); }); };
  EXPECT_EQ(warned(), "warning: slow\n");
  log::set_rank(1, 2);
  EXPECT_EQ(warned(), "[rank 1] warning: slow\n");
  log::set_rank(6, 8, "host3");
  EXPECT_EQ(warned(), "[rank 6 on host3] warning: slow\n");
  log::set_rank(0, 1, "host3");
  EXPECT_EQ(warned(), "warning: slow\n");
}

}  // namespace
}  // namespace dtrain

// What a verdict says of runs whose ranks wait for their samples.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diagnose/made_faults.h"
#include "diagnose/means.h"
#include "diagnose/verdict.h"

namespace dtrain::diagnose {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One rank that waits for data, `seconds` per step of 100 ms.
RunEvidence waiting_run(double seconds = 0.054) {
  RunEvidence run = healthy_run();
  lengthen(run, 0, Phase::kDataWait, seconds);
  return run;
}

// One reader that takes 150 ms for a batch, mostly waiting for a disk: two take 75 ms, which is
// below the step.
TEST(DataVerdict, MoreReadersWhereTheyWouldKeepUp) {
  RunEvidence run = waiting_run();
  run.ranks[0].values[Quantity::kReadSeconds] = 0.130;
  run.ranks[0].values[Quantity::kCpu] = 0.096;
  const Verdict verdict = judge(run);
  EXPECT_THAT(
      verdict.text,
      ContainsRegex("^verdict: data-bound on disk: 54.0 of 150\\.. ms waiting; .5[67] % with "
                    "--data.workers 2"));
}

// Nothing is known of the readers.
TEST(DataVerdict, WaitingForDataIsOnTheDiskWhereNoStageWasMeasured) {
  RunEvidence run = waiting_run();
  for (const Quantity stage :
       {Quantity::kReadSeconds, Quantity::kDecodeSeconds, Quantity::kAugmentSeconds})
    run.ranks[0].values[stage] = 0;
  EXPECT_EQ(judge(run).findings.at(0).cause, Cause::kDisk) << judge(run).text;
}

TEST(DataVerdict, NoMoreReadersThanTheCoresCanRun) {
  RunEvidence run = waiting_run();
  run.ranks[0].values[Quantity::kAugmentSeconds] = 0.150;
  run.ranks[0].values[Quantity::kCores] = 1;
  run.ranks[0].values[Quantity::kCpu] = 0.150;  // always busy
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kAugment);
  EXPECT_THAT(verdict.text, ContainsRegex("5[67] % with more cores"));
  run.ranks[0].values[Quantity::kCores] = 4;
  EXPECT_THAT(judge(run).text, HasSubstr("with --data.workers 2"));
}

// Four readers of one disk: a sample takes three times as long with all of them as with two.
TEST(DataVerdict, FewerReadersWhereTheyAreInEachOthersWay) {
  RunEvidence run = waiting_run();
  Values& loader = run.ranks[0].values;
  loader[Quantity::kLoaderThreads] = 4;
  loader[Quantity::kReadSeconds] = 4 * 0.150;
  loader[Quantity::kFewSampleSeconds] = 0.006;
  loader[Quantity::kManySampleSeconds] = 0.018;
  EXPECT_EQ(cause_of(run), Cause::kReaders);
  EXPECT_THAT(
      judge(run).text,
      ContainsRegex(
          "^verdict: too many reader threads: 54.0 of 150\\.. ms waiting, a sample takes 3.0 times "
          "as "
          "long with all readers at work as with half of them; .5[67] % with --data.workers 1"));
  // Where they only share what there is, neither more nor fewer of them help.
  loader[Quantity::kManySampleSeconds] = 2 * loader[Quantity::kFewSampleSeconds];
  EXPECT_EQ(cause_of(run), Cause::kDisk);
  EXPECT_THAT(judge(run).text, HasSubstr("with a faster disk"));
  for (const double measured : {1.8, 2.2}) {
    loader[Quantity::kManySampleSeconds] = measured * loader[Quantity::kFewSampleSeconds];
    EXPECT_THAT(judge(run).text, HasSubstr("with a faster disk")) << measured;
  }
  // Half of an odd number of readers is less than half of them.
  for (const int threads : {2, 3, 5, 7}) {
    loader[Quantity::kLoaderThreads] = threads;
    loader[Quantity::kReadSeconds] = threads * 0.150;
    loader[Quantity::kManySampleSeconds] =
        loader[Quantity::kFewSampleSeconds] * threads / few_readers(threads);
    EXPECT_THAT(judge(run).text, HasSubstr("with a faster disk")) << threads;
    loader[Quantity::kManySampleSeconds] = loader[Quantity::kFewSampleSeconds];
    EXPECT_THAT(judge(run).text, HasSubstr("with --data.workers " + std::to_string(2 * threads)))
        << threads;
  }
}

// Of three readers one is half: readers that share one disk take 3 times as long with all of them,
// and not much more.
TEST(DataVerdict, ThreeReadersOfOneDiskAreNotInEachOthersWay) {
  RunEvidence run = waiting_run();
  Values& loader = run.ranks[0].values;
  loader[Quantity::kLoaderThreads] = 3;
  loader[Quantity::kReadSeconds] = 3 * 0.150;
  loader[Quantity::kFewSampleSeconds] = 0.006;
  for (const double longer : {2.6, 3.0, 3.9}) {
    loader[Quantity::kManySampleSeconds] = longer * loader[Quantity::kFewSampleSeconds];
    EXPECT_EQ(cause_of(run), Cause::kDisk);
    EXPECT_THAT(judge(run).text, HasSubstr("with a faster disk")) << longer;
  }
  loader[Quantity::kManySampleSeconds] = 6 * loader[Quantity::kFewSampleSeconds];
  EXPECT_EQ(cause_of(run), Cause::kReaders);
}

// They are in each other's way, but have time to rest: fewer of them would not make batches
// come evenly.
TEST(DataVerdict, ReadersThatRestAreNotTooMany) {
  RunEvidence run = waiting_run(0.010);
  Values& loader = run.ranks[0].values;
  loader[Quantity::kLoaderThreads] = 4;
  loader[Quantity::kReadSeconds] = 0.100;
  loader[Quantity::kFewSampleSeconds] = 0.001;
  loader[Quantity::kManySampleSeconds] = 0.003;
  EXPECT_EQ(cause_of(run), Cause::kDisk);
  EXPECT_THAT(judge(run).text, HasSubstr("if batches came evenly (--data.prefetch)"));
}

TEST(DataVerdict, NoGainBeyondTheMeasuredHeadroom) {
  RunEvidence run = waiting_run();
  run.ranks[0].values[Quantity::kReadSeconds] = 0.130;
  run.ranks[0].values[Quantity::kCpu] = 0.096;
  const double step = mean_wall(run.ranks[0].steps);
  run.cached_step = step - 0.025;
  EXPECT_THAT(
      judge(run).text,
      ContainsRegex("54.0 of 150\\.. ms waiting, 12[45]\\.. ms with batches from memory; .2[01] % "
                    "with --data.workers 2"));
  run.cached_step = step - 0.001;  // the waits hide what the cores would do instead
  EXPECT_THAT(judge(run).findings, IsEmpty());
}

TEST(DataVerdict, NamesTheRankWhoseDataTheOthersWaitFor) {
  RunEvidence run = healthy_run(4);
  lengthen(run, 2, Phase::kDataWait, 0.050);
  run.ranks[2].values[Quantity::kReadSeconds] = 0.130;
  run.ranks[2].values[Quantity::kCpu] = 0.096;
  const Verdict verdict = judge(run);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kDisk);
  EXPECT_EQ(verdict.findings[0].rank, 2);
}

// All readers are slow, and one rank waits for the data of both: meanwhile the readers of the other
// catch up.
TEST(DataVerdict, SlowReadersOfAllRanksAreNotThoseOfOne) {
  RunEvidence run = healthy_run(2);
  lengthen(run, 1, Phase::kDataWait, 0.050);
  for (RankEvidence& rank : run.ranks) rank.values[Quantity::kReadSeconds] = 0.130;
  const Finding found = judge(run).findings.at(0);
  EXPECT_EQ(found.cause, Cause::kDisk);
  EXPECT_EQ(found.rank, -1);
}

// Loading is too slow everywhere, now on one rank and now on another: it is no late rank.
TEST(DataVerdict, ReadersThatAreSlowInTurnAreThoseOfAllRanks) {
  RunEvidence run =
      evidence_of({.ranks = 2, .slow = [](size_t rank, size_t step, Random&, StepTimes& s) {
                     const bool slow = step / 5 % 2 == rank;
                     s.phases[index_of(Phase::kDataWait)] += slow ? 0.040 : 0;
                   }});
  for (RankEvidence& rank : run.ranks) {
    rank.values[Quantity::kReadSeconds] = 0.070;  // 140 ms every other time
    rank.values[Quantity::kAugmentSeconds] = 0;
  }
  const Verdict verdict = judge(run);
  ASSERT_EQ(verdict.findings.size(), 1u) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kDisk);
  EXPECT_EQ(verdict.findings[0].rank, -1);
  EXPECT_NEAR(verdict.findings[0].gain->ratio, 0.40, 0.06);
  EXPECT_THAT(verdict.text, HasSubstr("if batches came evenly (--data.prefetch)"));
}

TEST(DataVerdict, TheDiskShowsInFaultsAndInIoWait) {
  RunEvidence run = waiting_run();
  run.ranks[0].values[Quantity::kReadSeconds] = 0.130;
  run.ranks[0].values[Quantity::kMajorFaults] = 12.4;
  run.hosts[0].values[Quantity::kHostIoWait] = 0.15;
  EXPECT_THAT(judge(run).text,
              HasSubstr(" ms waiting, 12 major faults per step, 25 % of the time in I/O wait; "));
}

// Batches from memory were hardly faster.
TEST(DataVerdict, ThePageCacheGainsNoMoreThanTheHeadroom) {
  RunEvidence run = waiting_run();
  run.settings.epochs = 3;
  run.hosts[0].values[Quantity::kReadAgain] = 64e4;
  run.ranks[0].values[Quantity::kDiskBytes] = run.ranks[0].values[Quantity::kSampleBytes];
  run.ranks[0].values[Quantity::kReadSeconds] = 0.150;
  EXPECT_EQ(cause_of(run), Cause::kPageCache);
  run.cached_step = mean_wall(run.ranks[0].steps) - 0.001;
  EXPECT_THAT(judge(run).findings, IsEmpty());
}

}  // namespace
}  // namespace dtrain::diagnose

// The card fits a terminal, whatever the run is.

#include "report/card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/read_run.h"
#include "run_folder.h"
#include "text/utf8.h"

namespace dtrain::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string card_of(const RunRecords& run) { return card(run, digest(run), /*now=*/1460); }

void expect_fits(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  EXPECT_LE(lines.size() - 1, kCardLines) << text;
  for (const std::string& line : lines) EXPECT_LE(count_characters(line), kCardColumns) << line;
}

TEST(Card, SaysWhatARunWas) {
  const testing::RunFolder folder;
  folder.whole_run();
  const std::string text = card_of(read_run(folder.path()));
  expect_fits(text);
  for (const char* part :
       {"run       r  finished, last record 59.0s ago",
        "task      headpose, headpose_cnn, 1 701 667 parameters, fp32",
        "data      data/d.h5: 3 200 training, 400 validation, 400 test samples",
        "ranks     2 on vm (CPU), global batch 32, mpi",
        "progress  epoch 4 of 4, step 400 of 400, 41.6s", "best      mae 6.0000 at step 400",
        "test      mae 6.5000", "samples/s, 100.0 ms per step",
        "backward          56.4 %  ##############################", "waiting for data   4.7 %",
        "evaluation         6.0 %", "verdict   compute-bound 90 %"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("left out")));
}

TEST(Card, IsCutAtTheEdgesOfTheScreen) {
  const testing::RunFolder folder;
  folder.whole_run();
  RunRecords run = read_run(folder.path());
  run.name = std::string(200, 'n') + "\n\x1b[31m";
  run.environment.data = "ü" + std::string(100, 'd') + "\xff";
  run.verdict.text =
      "verdict: " + std::string("data-bound on decode, rank 1: ") + std::string(300, 'v');
  run.verdict.causes.resize(3);
  run.verdict.not_measured.assign(64, "copy: no GPU clock");
  for (int i = 0; i < 40; ++i) run.gaps.push_back("a gap");
  for (StepWindow& window : run.steps) window.phase_seconds.fill(0.01);
  const std::string text = card_of(run);
  expect_fits(text);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(Card, OfARunWithoutAnything) {
  const testing::RunFolder folder;
  folder.write("metrics.jsonl", "");
  const std::string text = card_of(read_run(folder.path()));
  expect_fits(text);
  EXPECT_THAT(text, HasSubstr("run       r  no metrics"));
  EXPECT_THAT(text, HasSubstr("no step yet"));
  EXPECT_THAT(text, HasSubstr("left out  environment.json is not there"));
  EXPECT_THAT(text, HasSubstr("metrics.jsonl has no step records yet"));
}

TEST(Card, TheEnergyOfAllGpusPerSample) {
  const testing::RunFolder folder;
  folder.whole_run();
  RunRecords run = read_run(folder.path());
  EXPECT_THAT(card_of(run), Not(HasSubstr("energy"))) << "no GPU";
  const Digest before = digest(run);
  for (StepWindow& window : run.steps) {
    window.ranks = {{.rank = 0, .values = {{Quantity::kGpuEnergy, 30}}},
                    {.rank = 1, .values = {{Quantity::kGpuEnergy, 34}}}};
  }
  const double samples = before.samples_per_second * before.step_seconds;
  EXPECT_DOUBLE_EQ(digest(run).joules_per_sample, 64 / samples);
  const std::string text = card_of(run);
  expect_fits(text);
  EXPECT_THAT(text,
              HasSubstr("energy    " + short_number(64 / samples) + " J per sample, all GPUs"));
  run.steps.back().ranks[1].values[Quantity::kGpuEnergy] = kUnknown;
  EXPECT_DOUBLE_EQ(digest(run).joules_per_sample, 64 / samples) << "a mean of what is known";
  for (StepWindow& window : run.steps) window.ranks[1].values[Quantity::kGpuEnergy] = kUnknown;
  EXPECT_THAT(card_of(run), Not(HasSubstr("energy"))) << "of one GPU alone it would be too low";
}

TEST(Card, AVerdictHasTwoLines) {
  RunRecords run;
  run.name = "r";
  run.verdict.text =
      "verdict: data-bound on decode, rank 1: 8.1 of 13.0 ms waiting; +38 % with --data.workers 8";
  run.verdict.causes = {
      {.name = "decode", .rank = 1, .gain = 0.38},
      {.name = "late rank", .rank = 2, .gain = 0.05, .setting = "--a 1", .otherwise = "or more"}};
  run.verdict.communication = {.late = 0.0031, .latency = 0.0002, .not_overlapped = 0.001};
  const std::string text = card_of(run);
  EXPECT_THAT(
      text,
      HasSubstr(
          "\n          communication: 4.3 ms per step = late rank 3.1 + latency 0.2 + not\n"));
  EXPECT_THAT(text, HasSubstr("verdict   data-bound on decode, rank 1: 8.1 of 13.0 ms waiting; +38 "
                              "% with\n          --data.workers 8\n"));
  EXPECT_THAT(text, HasSubstr("then      late rank, rank 2: +5 % with --a 1 or more"));
}

TEST(Card, TheSettingIsShownHoweverLongTheEvidenceIs) {
  RunRecords run;
  const std::string evidence =
      "all ranks wait 11.8 of 272.3 ms for gradients, 6 messages cost 7.4 ms when no rank is late, "
      "4.1 ms more for the "
      "last rank, 4.4 of 272.3 ms in the optimizer";
  run.verdict.text = str(
      "verdict: communication-bound: ", evidence,
      "; +3 % with --accumulate 8 (a larger global batch, which may need another learning rate)");
  run.verdict.causes = {
      {.name = "latency", .gain = 0.03, .setting = "--accumulate 8", .evidence = evidence}};
  const std::string text = card_of(run);
  expect_fits(text);
  EXPECT_THAT(
      text,
      HasSubstr(
          "\nverdict   communication-bound: all ranks wait 11.8 of 272.3 ms for gradients, 6\n"));
  EXPECT_THAT(text, HasSubstr("...\n          +3 % with --accumulate 8 (a larger global batch, "
                              "which may need ano...\n"));
}

}  // namespace
}  // namespace dtrain::report

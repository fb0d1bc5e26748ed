// Ranks that are late now and then, in steps that differ by more than they are late: samples have
// lengths, epochs have tails. All ranks share that, so what tells is the same step of the
// other ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "diagnose/made_run.h"
#include "diagnose/verdict.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;
using measure::StepTimes;
using testing::HasSubstr;

// By up to half, from step to step.
double length_of(size_t step) { return 1 + 0.5 * std::sin(static_cast<double>(step * step)); }

void scale(StepTimes& s, double factor) {
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) s.phases[index_of(phase)] *= factor;
}

RunEvidence uneven_run(size_t ranks, double noise,
                       const std::function<double(size_t rank, size_t step)>& late) {
  return evidence_of({.ranks = ranks,
                      .noise = noise,
                      .slow = [late](size_t rank, size_t step, Random&, StepTimes& s) {
                        scale(s, length_of(step));
                        s.phases[index_of(Phase::kForward)] += late(rank, step);
                      }});
}

double on_time(size_t /*rank*/, size_t /*step*/) { return 0; }

TEST(UnevenRanks, StepsThatAreLongOnAllRanksMakeNoneLate) {
  for (const size_t ranks : {2, 3, 8}) {
    const Verdict verdict = judge(uneven_run(ranks, 0.03, on_time));
    EXPECT_TRUE(verdict.findings.empty()) << ranks << " ranks: " << text_of(verdict);
  }
}

// Each rank for itself, as where the samples of each have their own lengths.
TEST(UnevenRanks, NoiseMakesNoneLate) {
  for (const double noise : {0.06, 0.1, 0.15}) {
    for (const size_t ranks : {2, 4}) {
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        const Verdict verdict =
            judge(evidence_of({.ranks = ranks, .steps = 50, .noise = noise}, seed));
        EXPECT_TRUE(verdict.findings.empty())
            << ranks << " ranks, " << noise << ", seed " << seed << ": " << text_of(verdict);
      }
    }
  }
}

// Half of the ranks are late in each step, so that no step shows how much ranks differ that
// are not.
TEST(UnevenRanks, TwoHostsInTurn) {
  for (const size_t turn : {1, 2}) {
    const auto late = [turn](size_t rank, size_t step) {
      return step / turn % 2 == rank / 2 ? 0.02 : 0;
    };
    const Verdict verdict = judge(uneven_run(4, 0.02, late));
    ASSERT_FALSE(verdict.findings.empty()) << text_of(verdict);
    EXPECT_EQ(verdict.findings[0].cause, Cause::kRotatingRank) << text_of(verdict);
    EXPECT_NEAR(verdict.findings[0].gain->ratio, 0.2, 0.06);
  }
}

// The other rank is late, too, but seldom: neither its steps nor its seconds are of the one that
// is named.
TEST(UnevenRanks, OnlyWhatTheNamedRankIsLate) {
  const auto late = [](size_t rank, size_t step) {
    return (rank == 1 ? step % 5 == 0 : step == 7) ? 0.08 : 0;
  };
  const Verdict verdict = judge(uneven_run(2, 0.01, late));
  ASSERT_FALSE(verdict.findings.empty()) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].rank, 1);
  EXPECT_THAT(verdict.text, HasSubstr("it takes longer than the others in 20 % of the steps"));
}

// The turns of a rank are 1.7 steps long, so that most steps are late on both ranks, by parts.
TEST(UnevenRanks, LateInTurnAndInParts) {
  const auto late = [](size_t rank, size_t step) {
    double part = 0;
    for (int tenth = 0; tenth < 10; ++tenth) {
      const double at = (static_cast<double>(step) + 0.1 * tenth) / 1.7;
      part += static_cast<size_t>(at) % 2 == rank ? 0.1 : 0;
    }
    return 0.06 * part;
  };
  const Verdict verdict = judge(uneven_run(2, 0.02, late));
  ASSERT_FALSE(verdict.findings.empty()) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kRotatingRank) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].rank, -1);
  EXPECT_THAT(verdict.text, HasSubstr("uneven ranks: in "));
  // What both ranks lose in the same step would not come back if they were even.
  EXPECT_GT(verdict.findings[0].gain->ratio, 0.15);
  EXPECT_LT(verdict.findings[0].gain->ratio, 0.6);
}

TEST(UnevenRanks, AnyOfEight) {
  const auto late = [](size_t rank, size_t step) { return step * 5 % 8 == rank ? 0.02 : 0; };
  const Verdict verdict = judge(uneven_run(8, 0.02, late));
  ASSERT_EQ(verdict.findings.size(), 1u) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kRotatingRank) << text_of(verdict);
  EXPECT_NEAR(verdict.findings[0].gain->ratio, 0.2, 0.06);
}

// A global batch that is sorted by length is cut in order: the last rank has the longest samples in
// every step.
TEST(UnevenRanks, WithLongerSamplesThanOthersIsNotLate) {
  const auto by_rows = [](size_t rank, size_t, Random&, StepTimes& step) {
    const double rows = 105 + 5 * static_cast<double>(rank);
    step.padded = {.rows = rows, .cells = rows};
    for (const Phase phase : {Phase::kForward, Phase::kBackward})
      step.phases[index_of(phase)] *= rows / 120;
  };
  EXPECT_THAT(judge(evidence_of({.ranks = 8, .slow = by_rows})).findings, testing::IsEmpty());
  const auto slow = [&](size_t rank, size_t i, Random& random, StepTimes& step) {
    by_rows(rank, i, random, step);
    if (rank == 7) step.phases[index_of(Phase::kForward)] *= 2;
  };
  const Verdict verdict = judge(evidence_of({.ranks = 8, .slow = slow}));
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings[0].cause, Cause::kLateRank) << verdict.text;
  EXPECT_EQ(verdict.findings[0].rank, 7);
}

TEST(UnevenRanks, OneOfThemNowAndThen) {
  const auto late = [](size_t rank, size_t step) { return rank == 1 && step % 3 == 0 ? 0.08 : 0; };
  const Verdict verdict = judge(uneven_run(2, 0.02, late));
  ASSERT_FALSE(verdict.findings.empty()) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].cause, Cause::kLateRank) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].rank, 1);
  EXPECT_NEAR(verdict.findings[0].gain->ratio, 0.27, 0.08);
}

// That is a slow rank, whose machine matters, whether its neighbor is slow, too, or not.
TEST(UnevenRanks, OneThatIsAlwaysLateIsSlow) {
  for (const size_t slow : {1, 2}) {
    const Verdict verdict =
        judge(uneven_run(4, 0.02, [slow](size_t rank, size_t) { return rank < slow ? 0.03 : 0; }));
    ASSERT_EQ(verdict.findings.size(), 1u) << text_of(verdict);
    EXPECT_EQ(verdict.findings[0].cause, Cause::kLateRank) << text_of(verdict);
    EXPECT_THAT(verdict.text, HasSubstr("more in forward than the other ranks"));
  }
}

TEST(UnevenRanks, OfSeveralLateRanksTheSlowestIsNamed) {
  const auto late = [](size_t rank, size_t) { return rank == 2 ? 0.018 : rank == 5 ? 0.030 : 0; };
  const Verdict verdict = judge(uneven_run(8, 0.02, late));
  ASSERT_FALSE(verdict.findings.empty()) << text_of(verdict);
  EXPECT_EQ(verdict.findings[0].rank, 5) << text_of(verdict);
}

}  // namespace
}  // namespace dtrain::diagnose

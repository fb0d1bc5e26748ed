#include "diagnose/verdict.h"

#include <gtest/gtest.h>

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;

PhaseSeconds rank(double data, double forward, double backward, double comm, double optimizer, double eval = 0) {
  PhaseSeconds s{};
  s[static_cast<size_t>(Phase::kDataWait)] = data;
  s[static_cast<size_t>(Phase::kForward)] = forward;
  s[static_cast<size_t>(Phase::kBackward)] = backward;
  s[static_cast<size_t>(Phase::kAllReduceWait)] = comm;
  s[static_cast<size_t>(Phase::kOptimizer)] = optimizer;
  s[static_cast<size_t>(Phase::kEval)] = eval;
  return s;
}

TEST(Verdict, NamesTheRankThatWaitsForData) {
  const std::vector<PhaseSeconds> ranks = {rank(0.01, 1, 2, 5, 0.1), rank(5, 1, 2, 0.01, 0.1)};
  const Verdict v = verdict(ranks, 1000, {.workers = 2, .cores = 8});
  EXPECT_EQ(v.kind, Verdict::Kind::kData);
  EXPECT_EQ(v.worst_rank, 1);
  EXPECT_EQ(v.text, "verdict: data-bound 62 % (5.0 of 8.1 ms waiting, worst rank 1): set --data.workers 4");
}

TEST(Verdict, DoesNotAdviseMoreReadersThanCores) {
  const std::vector<PhaseSeconds> ranks = {rank(5, 1, 2, 0, 0.1)};
  EXPECT_EQ(verdict(ranks, 10, {.workers = 1, .cores = 1}).text.find("--data.workers"), std::string::npos);
  EXPECT_NE(verdict(ranks, 10, {.workers = 3, .cores = 4}).text.find("--data.workers 4"), std::string::npos);
}

// The other ranks wait in the all-reduce for the slow one, which is not due to the network.
TEST(Verdict, ASlowRankIsNotCommunicationBound) {
  const std::vector<PhaseSeconds> ranks = {rank(0, 1, 2, 3, 0.1), rank(0, 2, 4, 0.1, 0.1)};
  const Verdict v = verdict(ranks, 10, {});
  EXPECT_EQ(v.kind, Verdict::Kind::kCompute);
  EXPECT_EQ(v.worst_rank, 1);
}

TEST(Verdict, IsCommunicationBoundWhenAllRanksWait) {
  const std::vector<PhaseSeconds> ranks = {rank(0, 1, 2, 2, 0.1), rank(0, 1, 2, 2.1, 0.1)};
  EXPECT_EQ(verdict(ranks, 10, {}).kind, Verdict::Kind::kCommunication);
}

TEST(Verdict, EvaluationIsNotTraining) {
  const std::vector<PhaseSeconds> ranks = {rank(0, 1, 2, 0, 0.1, 100)};
  const Verdict v = verdict(ranks, 10, {});
  EXPECT_EQ(v.kind, Verdict::Kind::kCompute);
  EXPECT_NEAR(v.share, 3 / 3.1, 1e-9);
}

TEST(Verdict, IsUnknownWithoutRanksOrSteps) {
  EXPECT_EQ(verdict({}, 10, {}).kind, Verdict::Kind::kUnknown);
  const std::vector<PhaseSeconds> ranks = {rank(1, 1, 1, 1, 1)};
  EXPECT_EQ(verdict(ranks, 0, {}).kind, Verdict::Kind::kUnknown);
}

}  // namespace
}  // namespace dtrain::diagnose

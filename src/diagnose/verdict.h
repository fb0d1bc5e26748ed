#pragma once

// What held a run back most, and what it would gain without that: the line that a run ends with.
// Only what is worth a change speaks: a gain above 3 %, and above twice its own standard error,
// over at least 20 steps after warm-up. Below that the verdict is that nothing is worth changing.
// What two equal processes differ by is part of that error for late ranks, which speak above 6 %.
// Lost time has one cause: a runner-up's gain is what it adds once the causes before it are gone.
// What has no gain comes last, but for more threads of the job than cores: late ranks and slow
// messages come of that, so it comes first and they are not named. What could not be measured is
// named. Pure.

#include <optional>
#include <string>
#include <vector>

#include "diagnose/communication.h"
#include "diagnose/evidence.h"
#include "diagnose/finding.h"
#include "monitoring/verdict_record.h"

namespace dtrain::diagnose {

inline constexpr size_t kFewestSteps = 20;
inline constexpr size_t kMostFindings = 3;  // one verdict and two runners-up

struct Verdict {
  std::vector<Finding> findings;  // that speak; the first one is the verdict
  std::vector<std::string> not_measured;
  std::optional<Communication> communication;  // only with several ranks
  monitoring::VerdictRecord::Probes probes;
  // "verdict: data-bound on decode, rank 1: 8.1 of 13.0 ms waiting; +38 % with --data.workers 8"
  std::string text;
  std::vector<std::string> also;  // the runners-up, worded in the same way
};

Verdict judge(const RunEvidence&);

// "data-bound on decode, rank 1: 8.1 of 13.0 ms waiting; +38 % with --data.workers 8"
std::string text_of(const Finding&);
// One line, and one for each runner-up; without a line break at the end
std::string text_of(const Verdict&);

monitoring::VerdictRecord record_of(const Verdict&, int64_t step);

// How well the ranks work together, as MPI users know it: "parallel efficiency 82 % = load balance
// 95 % x communication efficiency 86 %" (the metrics of the POP project, pop-coe.eu). Load balance:
// the mean over the slowest rank's time outside of communication; communication efficiency: that
// time over the step's. "" for one rank, or with fewer steps than a verdict needs.
std::string efficiency_text(const RunEvidence&);

}  // namespace dtrain::diagnose

#pragma once

// A plan as text for people and as JSON for programs. Pure.

#include <string>
#include <vector>

#include "plan/links.h"
#include "plan/plan.h"

namespace dtrain::cli {

// All that a plan was made from, and the plan.
struct PlanReport {
  plan::MeasuredRun run;
  plan::Interconnect interconnect;
  plan::Request request;
  plan::Scaling scaling = plan::Scaling::kKeep;
  std::vector<plan::PlanRow> rows = {};

  bool is_blocked() const;  // whether any row is blocked
};

std::string plan_text(const PlanReport&);
std::string plan_json(const PlanReport&);

// The plan for the ranks that were measured, against what they measured: of each size, planned ÷
// measured - 1. Empty if the link was not measured too, or there was one rank.
struct PlanCheck {
  int64_t samples = 0;  // per micro-step
  double measured = 0, planned = 0;
};
std::vector<PlanCheck> check_plan(const PlanReport&);

}  // namespace dtrain::cli

#include "diagnose/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;

std::string percent(double share) { return str(fixed(100 * share, 0), " %"); }

std::string headline(Cause cause) {
  switch (cause) {
    case Cause::kDisk:
    case Cause::kDecode:
    case Cause::kAugment:
      return str("data-bound on ", cause);
    case Cause::kLatency:
    case Cause::kBandwidth:
      return str("communication-bound on ", cause);
    case Cause::kReaders:
      return "too many reader threads";
    case Cause::kCopy:
      return "copy-bound";
    case Cause::kLateRank:
      return "late rank";
    case Cause::kRotatingRank:
      return "uneven ranks";
    case Cause::kOptimizer:
      return "optimizer-bound";
    case Cause::kCheckpoint:
      return "checkpoint-bound";
    case Cause::kEvaluation:
      return "evaluation-bound";
    case Cause::kSmallBatch:
      return "small batch";
    case Cause::kPadding:
      return "padding";
    case Cause::kOversubscribed:
      return "cores oversubscribed";
    case Cause::kCpuLimit:
      return "CPU limit";
    case Cause::kSteal:
      return "CPU time stolen";
    case Cause::kMemoryGrowth:
      return "memory grows";
  }
  return "";
}

bool speaks(const Finding& finding) {
  if (!finding.gain) return true;  // a limit, not a gain
  return finding.gain->ratio >= kLeastGain && finding.gain->ratio > 2 * finding.gain->error;
}

double gain_or_zero(const Finding& finding) { return finding.gain ? finding.gain->ratio : 0; }

bool is_of_ranks(Cause cause) { return cause == Cause::kLateRank || cause == Cause::kRotatingRank; }
bool is_of_cores(Cause cause) {
  return cause == Cause::kOversubscribed || cause == Cause::kCpuLimit || cause == Cause::kSteal;
}

// A rank that waits for cores is late because of that: the deeper cause takes the place of the other.
void keep_deeper_causes(std::vector<Finding>& findings) {
  const auto deeper =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return is_of_cores(f.cause); });
  if (deeper == findings.end()) return;
  const double explained = 2 * gain_or_zero(*deeper);
  std::erase_if(findings, [&](const Finding& f) { return is_of_ranks(f.cause) && gain_or_zero(f) < explained; });
}

std::vector<Finding> all_causes(const RunEvidence& run) {
  std::vector<Finding> all;
  for (const auto& part : {data_causes, rank_causes, network_causes, step_causes, machine_causes}) {
    const std::vector<Finding> found = part(run);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

std::vector<std::string> not_measured(const RunEvidence& run) {
  std::vector<std::string> names;
  if (!run.settings.gpu) names.emplace_back("copy and kernel launches: no GPU clock");
  if (run.ranks.size() > 1 && !std::isfinite(run.network.latency)) names.emplace_back("the network's own cost");
  const CoreUse& cores = run.ranks[0].cores;
  if (!std::isfinite(cores.run_delay)) names.emplace_back("waiting for cores");
  if (!std::isfinite(cores.throttled)) names.emplace_back("CPU limit of the control group");
  return names;
}

std::string nothing_to_change(const RunEvidence& run) {
  const auto busiest = std::max_element(run.ranks.begin(), run.ranks.end(), [](const auto& a, const auto& b) {
    return mean_of(a.steps, Phase::kForward) + mean_of(a.steps, Phase::kBackward) <
           mean_of(b.steps, Phase::kForward) + mean_of(b.steps, Phase::kBackward);
  });
  const double step = mean_wall(busiest->steps);
  const double computing = mean_of(busiest->steps, Phase::kForward) + mean_of(busiest->steps, Phase::kBackward);
  return str("compute-bound, nothing worth changing: ", percent(computing / step), " of ", fixed(1e3 * step, 1),
             " ms in forward and backward", run.settings.gpu ? "" : "; a GPU would help most");
}

}  // namespace

std::string text_of(const Finding& f) {
  std::string text = headline(f.cause);
  if (f.rank >= 0) text += f.cause == Cause::kLateRank ? str(" ", f.rank) : str(", rank ", f.rank);
  text += ": " + f.evidence + ";";
  if (f.gain) text += str(" +", percent(f.gain->ratio));
  if (!f.setting.empty()) text += " with " + f.setting;
  if (!f.otherwise.empty()) text += " " + f.otherwise;
  return text;
}

Verdict judge(const RunEvidence& run) {
  Verdict verdict;
  const size_t steps = run.ranks.empty() ? 0 : run.ranks[0].steps.size();
  if (steps < kFewestSteps) {
    verdict.text = str("verdict: too few steps for a verdict (", steps, " of ", kFewestSteps, " after warm-up)");
    return verdict;
  }
  verdict.not_measured = not_measured(run);
  std::vector<Finding> findings = all_causes(run);
  std::erase_if(findings, [](const Finding& f) { return !speaks(f); });
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return gain_or_zero(a) > gain_or_zero(b); });
  keep_deeper_causes(findings);
  if (findings.size() > kMostFindings) findings.resize(kMostFindings);
  const bool has_gain = !findings.empty() && findings[0].gain.has_value();
  verdict.text = "verdict: " + (has_gain ? text_of(findings[0]) : nothing_to_change(run));
  for (size_t i = has_gain ? 1 : 0; i < findings.size(); ++i) verdict.also.push_back(text_of(findings[i]));
  verdict.findings = std::move(findings);
  return verdict;
}

std::string text_of(const Verdict& verdict) {
  std::string text = verdict.text;
  for (const std::string& also : verdict.also) text += "\n  also " + also;
  return text;
}

monitoring::VerdictRecord record_of(const Verdict& verdict, int64_t step) {
  monitoring::VerdictRecord record{
      .step = step, .text = verdict.text, .also = verdict.also, .causes = {}, .not_measured = verdict.not_measured};
  for (const Finding& f : verdict.findings) {
    record.causes.push_back({.name = str(f.cause),
                             .rank = f.rank,
                             .gain = f.gain ? f.gain->ratio : kUnknown,
                             .error = f.gain ? f.gain->error : kUnknown,
                             .setting = f.setting,
                             .evidence = f.evidence,
                             .otherwise = f.otherwise});
  }
  return record;
}

std::string efficiency_text(const RunEvidence& run) {
  double sum = 0, most = 0, step = 0;
  for (const RankEvidence& rank : run.ranks) {
    const double useful = mean_wall(rank.steps) - mean_of(rank.steps, Phase::kAllReduceWait);
    sum += useful;
    most = std::max(most, useful);
    step = std::max(step, mean_wall(rank.steps));
  }
  if (run.ranks.size() < 2 || most <= 0) return "";
  const double balance = sum / static_cast<double>(run.ranks.size()) / most, communication = most / step;
  return str("parallel efficiency ", percent(balance * communication), " = load balance ", percent(balance),
             " x communication efficiency ", percent(communication));
}

}  // namespace dtrain::diagnose

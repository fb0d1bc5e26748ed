#include "diagnose/verdict.h"

#include <algorithm>

#include "diagnose/find_causes.h"
#include "diagnose/means.h"
#include "text/strings.h"

namespace dtrain::diagnose {
namespace {

using measure::Phase;

bool speaks(const Finding& finding) {
  if (!finding.gain) return true;  // a limit, not a gain
  return finding.gain->ratio >= kLeastGain && finding.gain->ratio > 2 * finding.gain->error;
}

double gain_or_zero(const Finding& finding) { return finding.gain ? finding.gain->ratio : 0; }

Findings all_causes(const RunEvidence& run) {
  Findings all;
  for (const auto& add : {add_data_causes, add_rank_causes, add_network_causes, add_step_causes,
                          add_core_causes, add_gpu_causes, add_memory_causes}) {
    add(run, all);
  }
  return all;
}

// Such findings would be one line of a table, twice.
bool same_line(const Finding& a, const Finding& b) {
  return a.cause == b.cause && a.rank == b.rank && a.setting == b.setting;
}

// What is left to gain once `steps` are as they are.
void set_gains(Findings& findings, const std::vector<Steps>& steps) {
  for (Finding& f : findings) {
    if (f.without) f.gain = gain_of(steps, *f.without);
  }
  std::erase_if(findings, [](const Finding& f) { return !speaks(f); });
}

// Whether `deeper` gains with time that `other` claims. (Halving something leaves half of it to be
// halved again.)
bool explains(const Finding& deeper, const Finding& other, const std::vector<Steps>& steps) {
  if (row_of(deeper.cause).depth <= row_of(other.cause).depth || !deeper.without || !other.without)
    return false;
  const double gain = gain_or_zero(deeper), claimed = gain_or_zero(other);
  if (gain < 0.5 * claimed) return false;
  const double left = gain_of(replayed(steps, *deeper.without), *other.without).ratio;
  return left < claimed - 0.4 * std::min(gain, claimed);
}

Findings::iterator most_gain(Findings& findings, const std::vector<Steps>& steps) {
  auto best = std::ranges::max_element(findings, {}, gain_or_zero);
  for (auto other = findings.begin(); other != findings.end(); ++other) {
    if (explains(*other, *best, steps)) best = other;
  }
  return best;
}

// What has no gain (memory that runs out) comes last, but has a place. It is first where others
// follow from it.
struct Limits {
  Findings first, last;
};

Limits take_limits(Findings& all) {
  Limits limits;
  for (const Finding& f : all) {
    if (f.without || f.gain) continue;
    (row_of(f.cause).crowds ? limits.first : limits.last).push_back(f);
  }
  std::erase_if(all, [](const Finding& f) { return !f.without && !f.gain; });
  if (!limits.first.empty())
    std::erase_if(all, [](const Finding& f) { return row_of(f.cause).comes_of_crowding; });
  return limits;
}

// The cause that gains most, and then those that gain most after it: time that is gained once is
// not gained again.
Findings chosen(const RunEvidence& run) {
  Findings left = all_causes(run);
  const Limits limits = take_limits(left);
  Findings found = limits.first;
  std::vector<Steps> steps = run.steps();
  const size_t most = kMostFindings - (limits.last.empty() ? 0 : 1);
  set_gains(left, steps);
  while (!left.empty() && found.size() < most) {
    const Finding next = *most_gain(left, steps);
    std::erase_if(left, [&](const Finding& f) { return same_line(f, next); });
    found.push_back(next);
    steps = replayed(steps, *next.without);
    set_gains(left, steps);
  }
  for (size_t i = 0; i < limits.last.size() && found.size() < kMostFindings; ++i)
    found.push_back(limits.last[i]);
  return found;
}

// What the run is left with: the limit of its device.
std::string nothing_to_change(const RunEvidence& run) {
  const RankEvidence& busiest = run.ranks[longest_computing(run)];
  const double step = mean_wall(busiest.steps), share = mean_computing(busiest.steps) / step;
  const Values& gpu = busiest.values;
  std::string limit;
  if (!run.settings.gpu) {
    if (share > 0.5) limit = "; a GPU would help most";
  } else if (gpu[Quantity::kSlowedByPower] > 0.5) {
    limit =
        str("; the GPU runs at its power limit of ", fixed(gpu[Quantity::kPowerLimit], 0), " W");
  }
  return str(share > 0.5 ? "compute-bound, " : "", "nothing worth changing: ", percent(share),
             " of ", fixed(1e3 * step, 1), " ms in forward and backward", limit);
}

}  // namespace

std::string text_of(const Finding& f) {
  std::string text(row_of(f.cause).headline);
  if (f.rank >= 0) text += f.cause == Cause::kLateRank ? str(" ", f.rank) : str(", rank ", f.rank);
  text += ": " + f.evidence + ";";
  if (f.gain) text += str(" +", percent(f.gain->ratio));
  if (!f.setting.empty()) text += (f.gain ? " with " : " try ") + f.setting;
  if (!f.otherwise.empty()) text += " " + f.otherwise;
  return text;
}

Verdict judge(const RunEvidence& run) {
  Verdict verdict;
  verdict.probes = {run.cached_step, run.network.latency, run.network.seconds_per_byte};
  const size_t steps = run.ranks.empty() ? 0 : run.ranks[0].steps.size();
  if (steps < kFewestSteps) {
    verdict.text = str("verdict: too few steps for a verdict (", steps, " of ", kFewestSteps,
                       " after warm-up)");
    return verdict;
  }
  verdict.not_measured = not_measured(run);
  if (run.ranks.size() > 1) verdict.communication = communication_of(run);
  verdict.findings = chosen(run);
  verdict.text = "verdict: " +
                 (verdict.findings.empty() ? nothing_to_change(run) : text_of(verdict.findings[0]));
  for (size_t i = 1; i < verdict.findings.size(); ++i)
    verdict.also.push_back(text_of(verdict.findings[i]));
  return verdict;
}

std::string text_of(const Verdict& verdict) {
  std::string text = verdict.text;
  for (const std::string& also : verdict.also) text += "\n  also " + also;
  if (!verdict.not_measured.empty())
    text += "\n  not measured: " + join(verdict.not_measured, "; ");
  return text;
}

monitoring::VerdictRecord record_of(const Verdict& verdict, int64_t step) {
  monitoring::VerdictRecord record{.step = step,
                                   .text = verdict.text,
                                   .also = verdict.also,
                                   .causes = {},
                                   .not_measured = verdict.not_measured,
                                   .communication = {},
                                   .probes = verdict.probes};
  if (const auto& split = verdict.communication) {
    record.communication = {.late = split->late,
                            .latency = split->latency,
                            .bandwidth = split->transfer,
                            .not_overlapped = split->overlap,
                            .other = split->other};
  }
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
  if (run.ranks.size() < 2 || most <= 0 || run.ranks[0].steps.size() < kFewestSteps) return "";
  const double balance = sum / static_cast<double>(run.ranks.size()) / most,
               communication = most / step;
  return str("parallel efficiency ", percent(balance * communication), " = load balance ",
             percent(balance), " x communication efficiency ", percent(communication));
}

}  // namespace dtrain::diagnose

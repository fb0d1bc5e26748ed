#include "diagnose/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/strings.h"
#include "diagnose/causes.h"
#include "diagnose/means.h"

namespace dtrain::diagnose {
namespace {

using monitoring::Phase;

std::string headline(Cause cause) {
  switch (cause) {
    case Cause::kDisk:
    case Cause::kDecode:
    case Cause::kAugment:
      return str("data-bound on ", cause);
    case Cause::kLatency:
    case Cause::kBandwidth:
      return str("communication-bound on ", cause);
    case Cause::kNetwork:
      return "communication-bound";
    case Cause::kOverlap:
      return "poor overlap";
    case Cause::kReaders:
      return "too many reader threads";
    case Cause::kPageCache:
      return "data-bound on the page cache";
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
    case Cause::kPrecision:
      return "compute-bound in float32";
    case Cause::kPadding:
      return "padding";
    case Cause::kOversubscribed:
      return "cores oversubscribed";
    case Cause::kBinding:
      return "bound to too few cores";
    case Cause::kCpuLimit:
      return "CPU limit";
    case Cause::kSteal:
      return "CPU time stolen";
    case Cause::kPower:
      return "throttled by power";
    case Cause::kHeat:
      return "throttled by heat";
    case Cause::kLossScale:
      return "loss scale collapses";
    case Cause::kMemoryFull:
      return "close to out of memory";
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

// The same lost time may have several names: a rank is late because its GPU is hot. The deeper one
// is what to change.
int depth_of(Cause cause) {
  switch (cause) {
    case Cause::kLateRank:
    case Cause::kRotatingRank:
      return 0;
    case Cause::kOversubscribed:
    case Cause::kBinding:
    case Cause::kCpuLimit:
    case Cause::kSteal:
    case Cause::kPower:
    case Cause::kHeat:
    case Cause::kPageCache:
    case Cause::kSmallBatch:  // of optimizer and messages, which a larger batch pays once
      return 2;
    default:
      return 1;
  }
}

std::vector<Finding> all_causes(const RunEvidence& run) {
  std::vector<Finding> all;
  for (const auto& part : {data_causes, rank_causes, network_causes, step_causes, core_causes,
                           gpu_causes, memory_causes}) {
    const std::vector<Finding> found = part(run);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

using Findings = std::vector<Finding>;

// Such findings would be one line of a table, twice.
bool same_line(const Finding& a, const Finding& b) {
  return a.cause == b.cause && a.rank == b.rank && a.setting == b.setting;
}

// Where the threads of this job have no cores: ranks that are late, messages that are slow, and
// what else crowds the cores. Nothing says how much of it is for this reason, so no gain of theirs
// can be promised.
bool comes_of_crowding(const Finding& f) {
  switch (f.cause) {
    case Cause::kOversubscribed:
    case Cause::kLateRank:
    case Cause::kRotatingRank:
    case Cause::kLatency:
    case Cause::kBandwidth:
    case Cause::kNetwork:
    case Cause::kOverlap:
      return true;
    default:
      return false;
  }
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
  if (depth_of(deeper.cause) <= depth_of(other.cause) || !deeper.without || !other.without)
    return false;
  const double gain = gain_or_zero(deeper), claimed = gain_or_zero(other);
  if (gain < 0.5 * claimed) return false;
  const double left = gain_of(replayed(steps, *deeper.without), *other.without).ratio;
  return left < claimed - 0.4 * std::min(gain, claimed);
}

Findings::iterator most_gain(Findings& findings, const std::vector<Steps>& steps) {
  auto best = std::max_element(
      findings.begin(), findings.end(),
      [](const Finding& a, const Finding& b) { return gain_or_zero(a) < gain_or_zero(b); });
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
    (f.cause == Cause::kOversubscribed ? limits.first : limits.last).push_back(f);
  }
  std::erase_if(all, [](const Finding& f) { return !f.without && !f.gain; });
  if (!limits.first.empty()) std::erase_if(all, comes_of_crowding);
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

// Whether the readers of a rank keep it waiting, and it is not known if fewer of them would
// be faster.
bool crowding_unknown(const RankEvidence& rank) {
  const bool waits = mean_of(rank.steps, Phase::kDataWait) > kLeastGain * mean_wall(rank.steps);
  return waits && rank.loader.threads > 1 && !std::isfinite(rank.loader.few_service);
}

// What the GPU of a rank did not tell. Its clock counts only while it has work.
std::string gpu_not_measured(const GpuUse& gpu) {
  if (!std::isfinite(gpu.busy) && !std::isfinite(gpu.power_limited)) {
    return "power, heat and idle time of the GPU: no NVML";
  }
  if (!std::isfinite(gpu.power_limited))
    return "power and heat of the GPU: it does not say what slows it down";
  if (!std::isfinite(gpu.busy))
    return "clock and idle time of the GPU: it does not say how busy it is";
  if (std::isfinite(gpu.clock)) return "";
  return gpu.busy < 0.5 ? "clock of the GPU: it was mostly idle"
                        : "clock of the GPU: it does not tell it";
}

bool link_unknown(const GpuUse& gpu) { return gpu.link_width <= 0 || gpu.card_width <= 0; }

std::vector<std::string> not_measured_of_gpus(const RunEvidence& run) {
  if (!run.settings.gpu) return {"copy and kernel launches: no GPU clock"};
  std::vector<std::string> names;
  for (const RankEvidence& rank : run.ranks) {
    const std::string missing = gpu_not_measured(rank.gpu);
    if (!missing.empty() && std::find(names.begin(), names.end(), missing) == names.end())
      names.push_back(missing);
  }
  if (std::any_of(run.ranks.begin(), run.ranks.end(),
                  [](const RankEvidence& r) { return link_unknown(r.gpu); })) {
    names.emplace_back("PCIe link of the GPU");
  }
  return names;
}

// Whether something that is planned so often, and not only at the end of the run, has not
// happened yet.
bool still_to_come(const RunEvidence& run, double per_step, Phase phase, int64_t so_far) {
  const Steps& steps = run.ranks[worst_rank(run, phase)].steps;
  return so_far == 0 && !(mean_of(steps, phase) > 0) && per_step * run.total_steps() > 1.5;
}

// What is missing on any rank or host.
std::vector<std::string> not_measured(const RunEvidence& run) {
  const auto on_rank = [&](const auto& missing) {
    return std::any_of(run.ranks.begin(), run.ranks.end(), missing);
  };
  const auto on_host = [&](double HostUse::*value) {
    return run.hosts.empty() ||
           std::any_of(run.hosts.begin(), run.hosts.end(),
                       [&](const HostUse& host) { return !std::isfinite(host.*value); });
  };
  const std::pair<const char*, bool> all[] = {
      {"the network's own cost", run.ranks.size() > 1 && !std::isfinite(run.network.latency)},
      {"waiting for cores",
       on_rank([](const RankEvidence& r) { return !std::isfinite(r.cores.run_delay); })},
      {"CPU limit of the control group",
       on_rank([](const RankEvidence& r) { return !std::isfinite(r.cores.throttled); })},
      {"other processes and idle cores", on_host(&HostUse::others_cpu) || on_host(&HostUse::idle)},
      {"I/O wait of the host", on_host(&HostUse::io_wait)},
      {"swap", on_host(&HostUse::swapped_in)},
      {"memory of the ranks", on_rank([](const RankEvidence& r) { return r.memory.empty(); })},
      {"steal", on_host(&HostUse::steal)},
      {"page cache", on_host(&HostUse::read_again) || on_rank([](const RankEvidence& r) {
                       return !std::isfinite(r.disk_bytes);
                     })},
      {"free memory of the host", on_host(&HostUse::free_memory)},
      {"evaluations: none yet",
       still_to_come(run, run.settings.evaluations, Phase::kEval, run.evaluations.count)},
      {"checkpoints: none yet", still_to_come(run, run.settings.checkpoints, Phase::kCheckpoint,
                                              run.saves.count + run.saves_of_best.count)},
      {"fewer readers: half of them read too few samples alone", on_rank(crowding_unknown)}};
  std::vector<std::string> names = not_measured_of_gpus(run);
  for (const auto& [name, missing] : all) {
    if (missing) names.emplace_back(name);
  }
  return names;
}

// What the run is left with: the limit of its device.
std::string nothing_to_change(const RunEvidence& run) {
  const RankEvidence& busiest = run.ranks[longest_computing(run)];
  const double step = mean_wall(busiest.steps), share = mean_computing(busiest.steps) / step;
  const GpuUse& gpu = busiest.gpu;
  std::string limit;
  if (!run.settings.gpu) {
    if (share > 0.5) limit = "; a GPU would help most";
  } else if (gpu.power_limited > 0.5) {
    limit = str("; the GPU runs at its power limit of ", fixed(gpu.power_limit, 0), " W");
  }
  return str(share > 0.5 ? "compute-bound, " : "", "nothing worth changing: ", percent(share),
             " of ", fixed(1e3 * step, 1), " ms in forward and backward", limit);
}

}  // namespace

std::string text_of(const Finding& f) {
  std::string text = headline(f.cause);
  if (f.rank >= 0) text += f.cause == Cause::kLateRank ? str(" ", f.rank) : str(", rank ", f.rank);
  text += ": " + f.evidence + ";";
  if (f.gain) text += str(" +", percent(f.gain->ratio));
  if (!f.setting.empty()) text += (f.gain ? " with " : " try ") + f.setting;
  if (!f.otherwise.empty()) text += " " + f.otherwise;
  return text;
}

Verdict judge(const RunEvidence& run) {
  Verdict verdict;
  verdict.cached_step = run.cached_step;
  verdict.latency = run.network.latency;
  verdict.seconds_per_byte = run.network.seconds_per_byte;
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
  monitoring::VerdictRecord record{
      .step = step,
      .text = verdict.text,
      .also = verdict.also,
      .causes = {},
      .not_measured = verdict.not_measured,
      .communication = {},
      .probes = {verdict.cached_step, verdict.latency, verdict.seconds_per_byte}};
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

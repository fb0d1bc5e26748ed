#include "report/digest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/spread.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::report {
namespace {

using measure::Phase;

constexpr int64_t kWarmUpSteps = 20;
constexpr size_t kFewest = 4;
constexpr size_t kMostSlow = 8;

constexpr std::array<const char*, kParts> kPartNames = {
    "waiting for data", "copy",       "forward",    "backward", "communication",
    "optimizer",        "checkpoint", "evaluation", "other"};

double part(const Parts& parts, Phase phase) { return parts[static_cast<size_t>(phase)]; }

// What the wall time of a step has beyond its phases; older files do not say it.
double other_of(const StepWindow& window) {
  if (std::isfinite(window.other_seconds)) return std::max(0.0, window.other_seconds);
  double sum = 0;
  for (const double seconds : window.phase_seconds) sum += seconds;
  return std::isfinite(window.step_seconds) ? std::max(0.0, window.step_seconds - sum) : 0;
}

double larger(double a, double b) { return std::isnan(a) || b > a ? b : a; }

// Means over steps, of what is known.
class Sum {
 public:
  void add(double value, double weight) {
    if (!std::isfinite(value)) return;
    sum_ += value * weight;
    weight_ += weight;
  }
  double mean() const { return weight_ > 0 ? sum_ / weight_ : kUnknown; }

 private:
  double sum_ = 0, weight_ = 0;
};

struct RankSums {
  std::array<Sum, kParts> parts;
  Sum cores_busy;
  measure::Total values;

  void add(const RankWindow& w, double steps) {
    const Parts own = parts_of(w.phase_seconds, w.other_seconds);
    for (size_t i = 0; i < kParts; ++i) parts[i].add(own[i], steps);
    cores_busy.add(w.values[Quantity::kCpu] / w.step_seconds, steps * w.step_seconds);
    values.add(measure::sample_of(w.values, steps));
  }

  RankDigest result(int64_t rank) const {
    RankDigest digest{.rank = rank, .cores_busy = cores_busy.mean(), .values = values.per_step()};
    for (size_t i = 0; i < kParts; ++i)
      digest.seconds[i] = std::isnan(parts[i].mean()) ? 0 : parts[i].mean();
    digest.computing = part(digest.seconds, Phase::kForward) +
                       part(digest.seconds, Phase::kBackward) +
                       part(digest.seconds, Phase::kOptimizer);
    return digest;
  }
};

void add_parts(const RunRecords& run, Digest& digest) {
  for (const StepWindow& window : run.steps) {
    const Parts parts = parts_of(window);
    for (size_t i = 0; i < kParts; ++i)
      digest.parts[i] += parts[i] * static_cast<double>(window.count);
  }
  // The means of step records begin again after an evaluation, and with it after the save of a best
  // checkpoint; the last save follows the last step record. Both have records of their own.
  digest.parts[static_cast<size_t>(Phase::kEval)] = run.evaluation_seconds;
  digest.parts[static_cast<size_t>(Phase::kCheckpoint)] = run.save_seconds;
  for (const double seconds : digest.parts) digest.seconds += seconds;
}

void add_ranks(const RunRecords& run, Digest& digest) {
  std::map<int64_t, RankSums> sums;
  for (const StepWindow* window : after_warm_up(run.steps)) {
    for (const RankWindow& rank : window->ranks)
      sums[rank.rank].add(rank, static_cast<double>(window->count));
  }
  double sum = 0, largest = 0;
  for (const auto& [rank, of_rank] : sums) {
    digest.ranks.push_back(of_rank.result(rank));
    sum += digest.ranks.back().computing;
    largest = std::max(largest, digest.ranks.back().computing);
  }
  if (largest > 0) digest.load_balance = sum / static_cast<double>(sums.size()) / largest;
  // With many ranks, only some are in the records
  if (static_cast<int64_t>(digest.ranks.size()) < run.environment.world_size) return;
  double joules = 0;
  for (const RankDigest& rank : digest.ranks) joules += rank.values[Quantity::kGpuEnergy];
  if (!digest.ranks.empty())
    digest.joules_per_sample = joules / (digest.samples_per_second * digest.step_seconds);
}

// Of a rank in a window; of rank 0 where the record does not name the rank.
Parts parts_of_rank(const StepWindow& window, int64_t rank) {
  for (const RankWindow& one : window.ranks) {
    if (one.rank == rank) return parts_of(one.phase_seconds, one.other_seconds);
  }
  return parts_of(window);
}

// The median of each part of a rank over the windows, in seconds per step.
Parts usual_parts(const std::vector<const StepWindow*>& windows, int64_t rank) {
  Parts usual{};
  for (size_t i = 0; i < kParts; ++i) {
    std::vector<double> values;
    for (const StepWindow* w : windows) values.push_back(parts_of_rank(*w, rank)[i]);
    usual[i] = values.empty() ? 0 : median(std::move(values));
  }
  return usual;
}

void add_slow(const RunRecords& run, Digest& digest) {
  // × the usual: single steps differ by themselves
  constexpr double kSlowMean = 1.1, kSlowStep = 1.5;
  const std::vector<const StepWindow*> windows = after_warm_up(run.steps);
  for (const StepWindow& window : run.slowest) {
    const bool single = !std::isnan(window.slowest.step_seconds);
    const double seconds = window.longest_seconds();
    if (digest.slow.size() == kMostSlow) break;
    if (!(seconds > (single ? kSlowStep : kSlowMean) * digest.step_seconds)) continue;
    const Parts own = single ? parts_of(window.slowest.phase_seconds, window.slowest.other_seconds)
                             : parts_of(window);
    const Parts usual = usual_parts(windows, single ? window.slowest.rank : -1);
    size_t worst = 0;
    for (size_t i = 0; i < kParts; ++i) {
      if (own[i] - usual[i] > own[worst] - usual[worst]) worst = i;
    }
    const bool names_rank = single && digest.ranks.size() > 1;
    digest.slow.push_back(
        {.first = single ? window.slowest.step : window.step - window.count + 1,
         .last = single ? window.slowest.step : window.step,
         .step_seconds = seconds,
         .usual_seconds = digest.step_seconds,
         .cause = str(part_name(worst), " +", fixed(1e3 * (own[worst] - usual[worst]), 1), " ms",
                      names_rank ? str(" (rank ", window.slowest.rank, ")") : "")});
  }
}

void add_progress(const RunRecords& run, Digest& digest) {
  const Environment& e = run.environment;
  digest.step = run.last_step;
  digest.planned_steps = e.total_steps;
  const double per_epoch = static_cast<double>(e.steps_per_epoch);
  if (per_epoch > 0) {
    digest.planned_epochs =
        static_cast<int64_t>(std::ceil(static_cast<double>(e.total_steps) / per_epoch));
    digest.epochs = static_cast<double>(run.last_step) / per_epoch;
    if (run.last_step >= e.total_steps) digest.epochs = static_cast<double>(digest.planned_epochs);
    return;
  }
  digest.planned_epochs = parse_number<int64_t>(run.setting("train.epochs")).value_or(0);
  const bool done = run.state == RunState::kFinished && digest.planned_epochs > 0;
  digest.epochs = static_cast<double>(done                ? digest.planned_epochs
                                      : run.steps.empty() ? 0
                                                          : run.steps.back().epoch);
}

}  // namespace

const char* part_name(size_t part) { return kPartNames.at(part); }

Parts parts_of(const PhaseSeconds& phases, double other_seconds) {
  Parts parts{};
  std::copy(phases.begin(), phases.end(), parts.begin());
  parts.back() = std::isfinite(other_seconds) ? std::max(0.0, other_seconds) : 0;
  return parts;
}

Parts parts_of(const StepWindow& window) {
  return parts_of(window.phase_seconds, other_of(window));
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return median_of(std::move(values));
}

std::vector<const StepWindow*> after_warm_up(const std::vector<StepWindow>& windows) {
  std::vector<const StepWindow*> kept;
  for (const StepWindow& window : windows) {
    if (window.step - window.count >= kWarmUpSteps) kept.push_back(&window);
  }
  if (kept.size() >= kFewest) return kept;
  kept.clear();
  for (size_t i = windows.size() > 1 ? 1 : 0; i < windows.size(); ++i) kept.push_back(&windows[i]);
  return kept;
}

Digest digest(const RunRecords& run) {
  Digest digest;
  std::vector<double> step_seconds;
  for (const StepWindow* window : after_warm_up(run.steps)) {
    if (std::isfinite(window->samples_per_second))
      digest.speeds.push_back(window->samples_per_second);
    step_seconds.push_back(window->step_seconds);
  }
  digest.samples_per_second = median(digest.speeds);
  digest.step_seconds = median(std::move(step_seconds));
  for (const StepWindow& window : run.steps) {
    digest.memory_bytes = larger(digest.memory_bytes, window.memory_bytes);
    digest.memory_total_bytes = larger(digest.memory_total_bytes, window.memory_total_bytes);
  }
  add_parts(run, digest);
  add_ranks(run, digest);
  add_slow(run, digest);
  add_progress(run, digest);
  for (const RecordedEvaluation& evaluation : run.evaluations) {
    if (evaluation.split == "val") digest.last_val = &evaluation;
    if (evaluation.split == "test") digest.last_test = &evaluation;
  }
  return digest;
}

}  // namespace dtrain::report

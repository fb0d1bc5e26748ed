#include "cli/step_table.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "text/strings.h"

namespace dtrain::cli {
namespace {

using measure::Phase;

// What happens in a step; the other phases are of a whole run.
constexpr std::array<std::pair<Phase, const char*>, 6> kShown = {{{Phase::kDataWait, "data"},
                                                                  {Phase::kH2d, "h2d"},
                                                                  {Phase::kForward, "fwd"},
                                                                  {Phase::kBackward, "bwd"},
                                                                  {Phase::kAllReduceWait, "comm"},
                                                                  {Phase::kOptimizer, "opt"}}};

}  // namespace

double MeanStep::own() const { return step - phases[static_cast<size_t>(Phase::kAllReduceWait)]; }

MeanStep mean_of(const std::vector<train::MeasuredSteps>& measured) {
  MeanStep mean;
  double steps = 0;
  for (const train::MeasuredSteps& one : measured) steps += static_cast<double>(one.steps);
  for (const train::MeasuredSteps& one : measured) {
    mean.step += one.seconds / steps;
    mean.other += one.other_seconds() / steps;
    for (size_t phase = 0; phase < mean.phases.size(); ++phase)
      mean.phases[phase] += one.phase_seconds[phase] / steps;
  }
  return mean;
}

std::vector<size_t> ranks_to_show(const std::vector<MeanStep>& ranks) {
  constexpr size_t kMost = 8;
  std::vector<size_t> shown(ranks.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  if (ranks.size() <= kMost) return shown;
  std::ranges::stable_sort(shown, std::greater(), [&](size_t rank) { return ranks[rank].own(); });
  shown.resize(kMost);
  std::ranges::sort(shown);
  return shown;
}

std::string milliseconds(double seconds) { return fixed(seconds * 1e3, 2); }

void add_headings(TextRow& header) {
  header.emplace_back("step");
  for (const auto& [phase, name] : kShown) header.emplace_back(name);
  header.emplace_back("other");
}

void add_times(TextRow& row, const MeanStep& times) {
  row.push_back(milliseconds(times.step));
  for (const auto& [phase, name] : kShown)
    row.push_back(milliseconds(times.phases[static_cast<size_t>(phase)]));
  row.push_back(milliseconds(times.other));
}

std::string to_json(const MeanStep& times) {
  nlohmann::ordered_json phases;
  for (size_t phase = 0; phase < times.phases.size(); ++phase)
    phases[measure::kPhaseNames[phase]] = times.phases[phase];
  return nlohmann::ordered_json{{"step_seconds", times.step},
                                {"phase_seconds", std::move(phases)},
                                {"other_seconds", times.other}}
      .dump();
}

std::string to_json(const train::StepMemory& memory) {
  nlohmann::ordered_json json;
  for (const auto& [name, bytes] : train::kMemoryKinds) json[name] = memory.*bytes;
  return json.dump();
}

}  // namespace dtrain::cli

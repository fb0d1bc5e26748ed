// metrics.jsonl, line by line, into RunRecords.

#include "report/add_records.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "report/json_values.h"
#include "text/strings.h"

namespace dtrain::report {
namespace {

using monitoring::VerdictRecord;

constexpr size_t kMostWindows = 2000, kMostEvaluations = 2000, kMostSlowest = 12;
constexpr size_t kMostRanks = 64, kMostMetrics = 64, kMostTables = 8, kMostCells = 40000,
                 kMostCauses = 3;

// NaN where it cannot be the length of anything.
double seconds_in(const Json& object, const std::string& key) {
  const double seconds = number_in(object, key);
  return seconds >= 0 && seconds < 1e9 ? seconds : kUnknown;
}

PhaseSeconds phases_in(const Json& object) {
  const Json& by_name = object_in(object, "phase_seconds");
  PhaseSeconds phases{};
  for (size_t i = 0; i < phases.size(); ++i) {
    const double seconds = seconds_in(by_name, measure::kPhaseNames[i]);
    phases[i] = std::isnan(seconds) ? 0 : seconds;
  }
  return phases;
}

measure::Values values_in(const Json& json) {
  measure::Values values;
  for (const Quantity quantity : measure::all_quantities()) {
    const measure::QuantityRow& row = measure::row_of(quantity);
    if (row.key.empty()) continue;
    const Json& object = row.group.empty() ? json : object_in(json, std::string(row.group));
    const std::string key(row.key);
    values[quantity] = row.unit == "s" ? seconds_in(object, key) : number_in(object, key);
  }
  return values;
}

RankWindow rank_in(const Json& json) {
  return {.rank = count_in(json, "rank", -1),
          .step_seconds = seconds_in(json, "step_seconds"),
          .other_seconds = seconds_in(json, "other_seconds"),
          .phase_seconds = phases_in(json),
          .values = values_in(json)};
}

SlowestStep slowest_in(const Json& json) {
  return {.step = count_in(json, "step"),
          .rank = count_in(json, "rank", -1),
          .step_seconds = seconds_in(json, "step_seconds"),
          .other_seconds = seconds_in(json, "other_seconds"),
          .phase_seconds = phases_in(json)};
}

StepWindow window_in(const Json& json) {
  StepWindow window{.step = count_in(json, "step"),
                    .epoch = count_in(json, "epoch"),
                    .time = number_in(json, "time"),
                    .loss = number_in(json, "loss"),
                    .learning_rate = number_in(json, "learning_rate"),
                    .grad_norm = number_in(json, "grad_norm"),
                    .loss_scale = number_in(json, "loss_scale"),
                    .samples_per_second = number_in(json, "samples_per_second"),
                    .step_seconds = seconds_in(json, "step_seconds"),
                    .other_seconds = seconds_in(json, "other_seconds"),
                    .memory_bytes = number_in(json, "memory_used_bytes"),
                    .memory_total_bytes = number_in(json, "memory_total_bytes"),
                    .phase_seconds = phases_in(json),
                    .ranks = {},
                    .slowest = slowest_in(object_in(json, "slowest"))};
  for (const Json& rank : array_in(json, "ranks")) {
    if (window.ranks.size() == kMostRanks) break;
    if (rank.is_object() && count_in(rank, "rank", -1) >= 0) window.ranks.push_back(rank_in(rank));
  }
  return window;
}

std::vector<std::string> names_in(const Json& json, const char* key) {
  std::vector<std::string> names;
  for (const Json& name : array_in(json, key)) names.push_back(text_of(name));
  return names;
}

// A table of another shape than its names say has no rows.
Table table_in(const Json& json) {
  Table table{.name = text_in(json, "name"), .columns = {}, .rows = {}, .cells = {}};
  const Json& cells = array_in(json, "cells");
  const size_t rows = array_in(json, "rows").size(), columns = array_in(json, "columns").size();
  if (rows == 0 || columns == 0 || rows > kMostCells / columns || cells.size() != rows)
    return table;
  for (const Json& row : cells) {
    if (!row.is_array() || row.size() != columns) return table;
  }
  table.columns = names_in(json, "columns");
  table.rows = names_in(json, "rows");
  for (const Json& row : cells) {
    std::vector<double> numbers;
    for (const Json& cell : row) {
      const double number = cell.is_number() ? cell.get<double>() : kUnknown;
      numbers.push_back(std::abs(number) < 1e15 ? number : kUnknown);
    }
    table.cells.push_back(std::move(numbers));
  }
  return table;
}

RecordedEvaluation evaluation_in(const Json& json) {
  RecordedEvaluation evaluation{.step = count_in(json, "step"),
                                .epoch = count_in(json, "epoch"),
                                .samples = count_in(json, "samples"),
                                .time = number_in(json, "time"),
                                .seconds = seconds_in(json, "seconds"),
                                .split = text_in(json, "split"),
                                .metrics = {},
                                .tables = {}};
  const Json& metrics = object_in(json, "metrics");
  for (const auto& [name, value] : metrics.items()) {
    if (evaluation.metrics.size() == kMostMetrics) break;
    if (name.ends_with("_text") && value.is_string()) continue;  // text of an infinite metric
    evaluation.metrics.emplace_back(name.substr(0, kLongestName), number_in(metrics, name));
  }
  for (const Json& table : array_in(json, "tables")) {
    if (evaluation.tables.size() == kMostTables) break;
    if (!table.is_object()) continue;
    evaluation.tables.push_back(table_in(table));
    if (evaluation.tables.back().rows.empty()) evaluation.tables.pop_back();
  }
  return evaluation;
}

VerdictRecord verdict_in(const Json& json) {
  VerdictRecord verdict{.step = count_in(json, "step"),
                        .text = text_in(json, "text", kLongestSentence)};
  for (const Json& cause : array_in(json, "causes")) {
    if (!cause.is_object() || verdict.causes.size() == kMostCauses) continue;
    verdict.causes.push_back({.name = text_in(cause, "cause"),
                              .rank = count_in(cause, "rank", -1),
                              .gain = number_in(cause, "gain"),
                              .error = number_in(cause, "error"),
                              .setting = text_in(cause, "setting"),
                              .evidence = text_in(cause, "evidence", kLongestSentence),
                              .otherwise = text_in(cause, "otherwise")});
  }
  verdict.not_measured = names_in(json, "not_measured");
  if (verdict.not_measured.size() > kMostRanks) verdict.not_measured.resize(kMostRanks);
  const Json& split = object_in(json, "communication");
  for (const monitoring::CommunicationPart& part : monitoring::kCommunicationParts)
    verdict.communication.*part.seconds = seconds_in(split, str(part.name, "_seconds"));
  const Json& cost = object_in(json, "all_reduce");
  verdict.probes = {.cached_step = seconds_in(object_in(json, "headroom"), "step_seconds"),
                    .latency = seconds_in(cost, "latency_seconds"),
                    .seconds_per_byte = seconds_in(cost, "seconds_per_byte")};
  return verdict;
}

// ---- joining neighbors, so that a run of any length takes bounded memory ------------------------

// The mean of two values over as many steps; of one that is unknown, the other.
struct Mean {
  double of_first, of_second;  // sum to 1
  double operator()(double first, double second) const {
    if (std::isnan(first)) return second;
    return std::isnan(second) ? first : first * of_first + second * of_second;
  }
  PhaseSeconds operator()(const PhaseSeconds& first, const PhaseSeconds& second) const {
    PhaseSeconds mean{};
    for (size_t i = 0; i < mean.size(); ++i) mean[i] = (*this)(first[i], second[i]);
    return mean;
  }
};

RankWindow joined(const RankWindow& a, double a_steps, const RankWindow& b, double b_steps) {
  const Mean mean{a_steps / (a_steps + b_steps), b_steps / (a_steps + b_steps)};
  measure::Total values;
  values.add(measure::sample_of(a.values, a_steps));
  values.add(measure::sample_of(b.values, b_steps));
  return {.rank = b.rank,
          .step_seconds = mean(a.step_seconds, b.step_seconds),
          .other_seconds = mean(a.other_seconds, b.other_seconds),
          .phase_seconds = mean(a.phase_seconds, b.phase_seconds),
          .values = values.per_step()};
}

StepWindow joined(const StepWindow& a, const StepWindow& b) {
  const double steps = static_cast<double>(a.count + b.count);
  const Mean mean{static_cast<double>(a.count) / steps, static_cast<double>(b.count) / steps};
  StepWindow window = b;
  window.count = a.count + b.count;
  window.loss = mean(a.loss, b.loss);
  window.grad_norm = mean(a.grad_norm, b.grad_norm);
  window.step_seconds = mean(a.step_seconds, b.step_seconds);
  window.other_seconds = mean(a.other_seconds, b.other_seconds);
  window.samples_per_second = mean(a.samples_per_second, b.samples_per_second);
  window.phase_seconds = mean(a.phase_seconds, b.phase_seconds);
  for (RankWindow& rank : window.ranks) {
    const auto earlier = std::ranges::find(a.ranks, rank.rank, &RankWindow::rank);
    if (earlier != a.ranks.end())
      rank = joined(*earlier, static_cast<double>(a.count), rank, static_cast<double>(b.count));
  }
  return window;
}

void halve(std::vector<StepWindow>& windows) {
  std::vector<StepWindow> half;
  for (size_t i = 0; i + 1 < windows.size(); i += 2)
    half.push_back(joined(windows[i], windows[i + 1]));
  if (windows.size() % 2 == 1) half.push_back(std::move(windows.back()));
  windows = std::move(half);
}

// Marks the first evaluations of the validation split with the least and with the largest value of
// each metric that the last one has: one of the two is the best.
std::vector<bool> extremes(const std::vector<RecordedEvaluation>& evaluations) {
  std::vector<bool> marked(evaluations.size(), false);
  const auto is_val = [](const RecordedEvaluation& e) { return e.split == "val"; };
  const auto last = std::find_if(evaluations.rbegin(), evaluations.rend(), is_val);
  if (last == evaluations.rend()) return marked;
  for (const auto& [name, value_of_last] : last->metrics) {
    std::vector<std::pair<double, size_t>> values;
    for (size_t i = 0; i < evaluations.size(); ++i) {
      const double value = is_val(evaluations[i]) ? evaluations[i].metric(name) : kUnknown;
      if (std::isfinite(value)) values.emplace_back(value, i);
    }
    if (values.empty()) continue;
    const auto value_in = [](const auto& entry) { return entry.first; };
    marked[std::ranges::min_element(values, {}, value_in)->second] = true;
    marked[std::ranges::max_element(values, {}, value_in)->second] = true;
  }
  return marked;
}

void halve(std::vector<RecordedEvaluation>& evaluations) {
  const std::vector<bool> keep = extremes(evaluations);
  std::vector<RecordedEvaluation> half;
  for (size_t i = 0; i < evaluations.size(); ++i) {
    // Of two neighbors the later one, but always the last one of a split, which has the tables, and
    // the best.
    const bool later = i % 2 != evaluations.size() % 2;
    if (later || keep[i] || !evaluations[i].tables.empty())
      half.push_back(std::move(evaluations[i]));
  }
  evaluations = std::move(half);
}

}  // namespace

void RecordAdder::line(std::string_view text, bool whole) {
  ++lines_;
  if (text.empty() && whole) return;
  // nlohmann's parser keeps its own stack: nothing that is nested in a line can use up
  // the thread's.
  const Json json = whole ? Json::parse(text, nullptr, /*allow_exceptions=*/false) : Json();
  if (!json.is_object()) {
    whole ? ++damaged_ : ++cut_;
    if (first_damaged_ == 0) first_damaged_ = lines_;
    return;
  }
  const std::string kind = text_in(json, "kind");
  records_.last_step = std::max(records_.last_step, count_in(json, "step"));
  const double time = number_in(json, "time");
  if (time > 0 && time < 1e11) records_.last_time = time;
  if (kind == "step") {
    add(window_in(json));
  } else if (kind == "eval") {
    RecordedEvaluation evaluation = evaluation_in(json);
    // What a run writes: with any number of splits, no record could be left out for its tables.
    evaluation.split == "val" || evaluation.split == "test" ? add(std::move(evaluation))
                                                            : void(++unknown_);
  } else if (kind == "verdict") {
    records_.verdict = verdict_in(json);
  } else if (kind == "checkpoint") {
    ++records_.saves;
    if (const double seconds = seconds_in(json, "seconds"); !std::isnan(seconds))
      records_.save_seconds += seconds;
  } else if (kind == "state") {
    last_state_ = state_in(json);
  } else {
    ++unknown_;
  }
}

void RecordAdder::add(StepWindow window) {
  std::vector<StepWindow>& steps = records_.steps;
  const int64_t before = steps.empty() ? 0 : steps.back().step;
  if (window.step <= before) {
    ++out_of_order_;
    return;
  }
  window.count = std::exchange(begins_, false) ? 1 : window.step - before;
  if (!steps.empty() &&
      std::isfinite(window.step_seconds)) {  // the first step of a process is always slow
    std::vector<StepWindow>& slowest = records_.slowest;
    const auto place = std::ranges::upper_bound(slowest, window.longest_seconds(), std::greater<>(),
                                                &StepWindow::longest_seconds);
    slowest.insert(place, window);
    if (slowest.size() > kMostSlowest) slowest.pop_back();
  }
  steps.push_back(std::move(window));
  if (steps.size() > kMostWindows) halve(steps);
}

void RecordAdder::add(RecordedEvaluation evaluation) {
  if (!std::isnan(evaluation.seconds)) records_.evaluation_seconds += evaluation.seconds;
  std::vector<RecordedEvaluation>& all = records_.evaluations;
  for (auto earlier = all.rbegin(); earlier != all.rend(); ++earlier) {
    if (earlier->split != evaluation.split) continue;
    earlier->tables.clear();
    break;
  }
  all.push_back(std::move(evaluation));
  if (all.size() > kMostEvaluations) halve(all);
}

void RecordAdder::finish(bool growing) {
  const auto gap = [&](const std::string& what) {
    records_.gaps.push_back("metrics.jsonl: " + what);
  };
  if (damaged_ > 0) {
    gap(str(damaged_, damaged_ == 1 ? " line is" : " lines are",
            " no record and left out (the first: line ", first_damaged_, ")"));
  }
  if (cut_ > 0 && !growing) gap("a line that is cut or far too long is left out");
  if (out_of_order_ > 0) gap(str(out_of_order_, " step records that go back in time are left out"));
  if (unknown_ > 0)
    gap(str(unknown_, " records of kinds that this version does not know are left out"));
}

void add_records(RunRecords& records, std::string_view text, bool growing) {
  RecordAdder adder(records);
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    adder.line(text.substr(0, newline), newline != std::string_view::npos);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
  }
  adder.finish(growing);
}

}  // namespace dtrain::report

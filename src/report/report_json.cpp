// The data of a report as JSON: inside the page, and for --json.

#include <algorithm>
#include <cmath>

#include "core/table.h"
#include "report/json_values.h"
#include "report/page.h"
#include "text/strings.h"

namespace dtrain::report {
namespace {

constexpr size_t kMostWindows = 200, kMostEvaluations = 200;

// Six digits are more than any of these numbers is exact to, and keep the page small.
Json number(double value) {
  if (!std::isfinite(value)) return {};
  if (value == 0 || value == std::floor(value)) return value;
  const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) && scale > 0 ? std::round(value * scale) / scale : value;
}

Json phases(const Parts& parts) {
  Json by_name = Json::object();
  for (size_t i = 0; i < measure::kPhases; ++i) by_name[measure::kPhaseNames[i]] = number(parts[i]);
  by_name["other"] = number(parts.back());
  return by_name;
}

Json windows(const RunRecords& run) {
  Json all = Json::array();
  const size_t stride = std::max<size_t>(1, (run.steps.size() + kMostWindows - 1) / kMostWindows);
  for (size_t i = 0; i < run.steps.size(); i += stride) {
    const StepWindow& w = run.steps[i];
    all.push_back({{"step", w.step},
                   {"loss", number(w.loss)},
                   {"learning_rate", number(w.learning_rate)},
                   {"grad_norm", number(w.grad_norm)},
                   {"samples_per_second", number(w.samples_per_second)},
                   {"seconds", phases(parts_of(w))}});
  }
  return all;
}

Json evaluations(const RunRecords& run) {
  Json all = Json::array();
  const size_t stride =
      std::max<size_t>(1, (run.evaluations.size() + kMostEvaluations - 1) / kMostEvaluations);
  for (size_t i = (run.evaluations.size() + stride - 1) % stride; i < run.evaluations.size();
       i += stride) {
    const RecordedEvaluation& e = run.evaluations[i];
    Json json = {
        {"step", e.step}, {"split", e.split}, {"samples", e.samples}, {"metrics", Json::object()}};
    for (const auto& [name, value] : e.metrics) json["metrics"][name] = number(value);
    all.push_back(std::move(json));
  }
  return all;
}

// Those that were measured, by their keys in metrics.jsonl.
Json values_json(const measure::Values& values) {
  Json json = Json::object();
  for (const Quantity quantity : measure::all_quantities()) {
    const measure::QuantityRow& row = measure::row_of(quantity);
    if (row.key.empty() || !values.knows(quantity)) continue;
    json[str(row.group, row.group.empty() ? "" : ".", row.key)] = values[quantity];
  }
  return json;
}

Json ranks(const Digest& digest) {
  Json all = Json::array();
  for (const RankDigest& r : digest.ranks) {
    all.push_back({{"rank", r.rank},
                   {"seconds", phases(r.seconds)},
                   {"computing_seconds", number(r.computing)},
                   {"queue", number(r.values[Quantity::kQueue])},
                   {"cores", number(r.values[Quantity::kCores])},
                   {"cores_busy", number(r.cores_busy)},
                   {"memory_bytes", number(r.values[Quantity::kMemory])},
                   {"gpu_utilization", number(r.values[Quantity::kGpuUtilization])},
                   {"values", values_json(r.values)}});
  }
  return all;
}

Json verdict_json(const monitoring::VerdictRecord& verdict) {
  Json json = {
      {"text", verdict.text}, {"causes", Json::array()}, {"not_measured", verdict.not_measured}};
  for (const monitoring::VerdictRecord::Cause& c : verdict.causes) {
    json["causes"].push_back({{"cause", c.name},
                              {"rank", c.rank},
                              {"gain", number(c.gain)},
                              {"error", number(c.error)},
                              {"setting", c.setting},
                              {"otherwise", c.otherwise},
                              {"evidence", c.evidence}});
  }
  const auto& split = verdict.communication;
  if (!monitoring::text_of(split).empty()) {
    for (const monitoring::CommunicationPart& part : monitoring::kCommunicationParts)
      json["communication"][str(part.name, "_seconds")] = number(split.*part.seconds);
  }
  const auto& [cached_step, latency, seconds_per_byte] = verdict.probes;
  if (!std::isnan(cached_step)) json["headroom"] = {{"step_seconds", number(cached_step)}};
  if (!std::isnan(latency)) {
    json["all_reduce"] = {{"latency_seconds", number(latency)},
                          {"seconds_per_byte", number(seconds_per_byte)}};
  }
  return json;
}

Json known_json(const RunRecords& run, const Digest& digest) {
  const Environment& e = run.environment;
  Json json;
  json["name"] = run.name;
  json["state"] = std::string(name_of(run.state));
  json["reason"] = run.reason;
  json["task"] = run.task();
  json["network"] = e.network.empty() ? run.setting("model.name") : e.network;
  json["data"] = e.data;
  json["world_size"] = e.world_size;
  json["global_batch"] = e.global_batch;
  json["step"] = digest.step;
  json["planned_steps"] = digest.planned_steps;
  json["epochs"] = number(digest.epochs);
  json["planned_epochs"] = digest.planned_epochs;
  json["seconds"] = number(digest.seconds);
  json["best"] = {
      {"metric", run.best_metric}, {"value", number(run.best_value)}, {"step", run.best_step}};
  json["samples_per_second"] = number(digest.samples_per_second);
  json["step_seconds"] = number(digest.step_seconds);
  json["joules_per_sample"] = number(digest.joules_per_sample);
  json["phase_seconds"] = phases(digest.parts);
  json["load_balance"] = number(digest.load_balance);
  json["verdict"] = verdict_json(run.verdict);
  json["ranks"] = ranks(digest);
  json["windows"] = windows(run);
  json["evaluations"] = evaluations(run);
  json["left_out"] = run.gaps;
  return json;
}

std::string text_of_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string report_json(const RunRecords& run, const Digest& digest, const ContactSheet& sheet) {
  Json json = known_json(run, digest);
  json["tables"] = Json::array();
  for (const RecordedEvaluation* evaluation : {digest.last_val, digest.last_test}) {
    if (evaluation == nullptr) continue;
    for (const Table& table : evaluation->tables) {
      Json of_table = table_json<Json>(table);
      of_table["split"] = evaluation->split;
      json["tables"].push_back(std::move(of_table));
    }
  }
  json["samples"] = Json::array();
  for (const ShownSample& s : sheet.samples) {
    json["samples"].push_back({{"name", s.name},
                               {"target", s.target},
                               {"prediction", s.prediction},
                               {"error", number(s.error)}});
  }
  return text_of_json(json);
}

std::string comparison_json(Known first, Known second, const std::vector<Regression>& all,
                            double limit) {
  Json json;
  json["runs"] = {known_json(first.run, first.digest), known_json(second.run, second.digest)};
  json["differences"] = Json::array();
  for (const Difference& d : config_differences(first.run, second.run)) {
    json["differences"].push_back({{"key", d.key}, {"first", d.first}, {"second", d.second}});
  }
  json["limit"] = number(limit);
  json["regressions"] = Json::array();
  for (const Regression& r : all) {
    json["regressions"].push_back({{"name", r.name},
                                   {"first", number(r.first.value)},
                                   {"second", number(r.second.value)},
                                   {"loss", number(r.loss)},
                                   {"noise", number(r.noise)},
                                   {"judgment", std::string(name_of(r.judgment))},
                                   {"reason", r.reason}});
  }
  return text_of_json(json);
}

}  // namespace dtrain::report

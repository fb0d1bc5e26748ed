#include "report/run_records.h"

#include "catalog/catalog.h"

namespace dtrain::report {

double RecordedEvaluation::metric(std::string_view name) const {
  for (const auto& [own, value] : metrics) {
    if (own == name) return value;
  }
  return kUnknown;
}

std::string RunRecords::setting(std::string_view key) const {
  for (const auto& [own, value] : config) {
    if (own == key) return value;
  }
  return "";
}

MetricKind kind_of_metric(const RunRecords& run, std::string_view name) {
  for (const MetricKind& metric : run.environment.metrics) {
    if (metric.name == name) return metric;
  }
  MetricKind kind{.name = std::string(name), .unit = "", .known = true, .higher_is_better = false};
  if (name == "loss") return kind;
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name.starts_with("mae")) {
    const std::string& said = run.environment.task;
    const auto task = value_named<catalog::TaskId>(said.empty() ? run.setting("task.name") : said);
    if (task) kind.unit = catalog::row(*task).numbers.error_unit;
    if (kind.unit.empty()) kind.unit = "absolute error";
  } else if (has("mse") || has("reconstruction")) {
    kind.unit = "squared error";
  } else if (has("accuracy") || has("top1") || has("top5") || has("f1") || has("precision") ||
             has("recall")) {
    kind.unit = "share";
    kind.higher_is_better = true;
  } else {
    kind.known = false;
  }
  return kind;
}

}  // namespace dtrain::report

// The tables of docs/metrics.md.

#include <functional>

#include "core/error.h"
#include "monitoring/series.h"
#include "text/strings.h"

namespace dtrain::monitoring {
namespace {

using measure::QuantityRow;

std::string series_table(const std::function<bool(ExportedBy)>& has, bool with_ranks) {
  std::string text = with_ranks ? "| name | type | ranks | meaning |\n|---|---|---|---|\n"
                                : "| name | type | meaning |\n|---|---|---|\n";
  for (const SeriesRow& row : series_rows()) {
    if (!has(row.by)) continue;
    text += str("| `", row.name, row.labels.empty() ? "" : "{" + row.labels + "}", "` | ", row.type,
                with_ranks ? str(" | ", row.by) : "", " | ", row.help, " |\n");
  }
  return text;
}

std::string series_name(const QuantityRow& row) {
  return str("`", row.metric, row.label.empty() ? "" : str("{", row.label, "=\"", row.value, "\"}"),
             "`");
}

std::string_view when(measure::QuantityKind kind) {
  switch (kind) {
    case measure::QuantityKind::kSum:
    case measure::QuantityKind::kRate:
      return "per step";
    case measure::QuantityKind::kMean:
      return "mean";
    case measure::QuantityKind::kMax:
      return "highest";
    default:
      return "now";
  }
}

std::string quantity_table() {
  std::string text = "| key | unit | is | meaning |\n|---|---|---|---|\n";
  for (const QuantityRow& row : measure::quantity_rows()) {
    if (row.key.empty()) continue;
    const std::string key = str(row.group, row.group.empty() ? "" : ".", row.key);
    text += str("| `", key, "` | ", row.unit, " | ", when(row.kind), " | ",
                row.metric.empty() ? std::string(row.help) : "as " + series_name(row), " |\n");
  }
  return text;
}

}  // namespace

std::string metric_table(std::string_view name) {
  if (name == "quantities") return quantity_table();
  if (name == "gpu series")
    return series_table([](ExportedBy by) { return by == ExportedBy::kGpu; }, false);
  if (name == "launch series")
    return series_table([](ExportedBy by) { return by == ExportedBy::kLaunch; }, false);
  if (name != "series") throw DataError(str("there is no table of metrics named ", name));
  return series_table(
      [](ExportedBy by) { return by != ExportedBy::kGpu && by != ExportedBy::kLaunch; }, true);
}

}  // namespace dtrain::monitoring

#include "job/run_plot.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/file_system.h"
#include "monitoring/plot.h"

namespace dtrain::job {
namespace {

using monitoring::Panel;
using monitoring::Series;

struct Curves {
  Series train{.name = "training loss", .x = {}, .y = {}};
  std::map<std::string, Series> validation;  // by metric
};

Curves read_curves(const std::filesystem::path& metrics_file) {
  Curves curves;
  std::ifstream lines(metrics_file);
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("step")) continue;
    const double step = record["step"];
    if (record["kind"] == "step" && record["loss"].is_number()) {
      curves.train.x.push_back(step);
      curves.train.y.push_back(record["loss"]);
    } else if (record["kind"] == "eval" && record["split"] == "val") {
      for (const auto& [name, value] : record["metrics"].items()) {
        if (!value.is_number()) continue;
        Series& series = curves.validation[name];
        series.x.push_back(step);
        series.y.push_back(value);
      }
    }
  }
  return curves;
}

}  // namespace

void write_run_plot(const std::filesystem::path& run, const std::vector<tasks::MetricSpec>& metrics) {
  Curves curves = read_curves(run / "metrics.jsonl");
  if (curves.train.x.size() < 2) return;
  std::vector<Panel> panels = {{.y_label = "loss", .series = {std::move(curves.train)}}};
  for (const tasks::MetricSpec& metric : metrics) {
    const auto curve = curves.validation.find(metric.name);
    if (curve == curves.validation.end()) continue;
    const std::string label = metric.unit.empty() ? "loss" : metric.unit;
    auto panel = std::find_if(panels.begin(), panels.end(), [&](const Panel& p) { return p.y_label == label; });
    if (panel == panels.end()) panel = panels.insert(panel, Panel{.y_label = label, .series = {}});
    curve->second.name = metric.unit.empty() ? "validation " + metric.name : metric.name;
    panel->series.push_back(std::move(curve->second));
  }
  write_atomically(real_file_system(), run / "loss.svg",
                   monitoring::plot_svg(run.filename().string(), "optimizer step", panels));
}

}  // namespace dtrain::job

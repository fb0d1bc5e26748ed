#include "cli/run_plot.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/file_system.h"
#include "monitoring/plot.h"

namespace dtrain::cli {

void write_run_plot(const std::filesystem::path& run) {
  monitoring::Series train{.name = "training loss", .x = {}, .y = {}};
  std::map<std::string, monitoring::Series> evals;
  std::ifstream lines(run / "metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("step")) continue;
    const double step = record["step"];
    if (record["kind"] == "step" && record["loss"].is_number()) {
      train.x.push_back(step);
      train.y.push_back(record["loss"]);
    } else if (record["kind"] == "eval" && record["split"] == "val") {
      for (const auto& [name, value] : record["metrics"].items()) {
        if (!value.is_number()) continue;
        monitoring::Series& series = evals[name];
        series.name = name == "loss" ? "validation loss" : name;
        series.x.push_back(step);
        series.y.push_back(value);
      }
    }
  }
  if (train.x.size() < 2) return;
  std::vector<monitoring::Panel> panels = {{.y_label = "loss", .series = {train}}};
  if (const auto loss = evals.find("loss"); loss != evals.end()) {
    panels[0].series.push_back(loss->second);
    evals.erase(loss);
  }
  if (!evals.empty()) {
    monitoring::Panel metrics{.y_label = "validation", .series = {}};
    for (auto& [name, series] : evals) metrics.series.push_back(std::move(series));
    panels.push_back(std::move(metrics));
  }
  write_atomically(real_file_system(), run / "loss.svg",
                   monitoring::plot_svg(run.filename().string(), "optimizer step", panels));
}

}  // namespace dtrain::cli

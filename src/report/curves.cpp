#include "report/curves.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "report/digest.h"
#include "text/strings.h"

namespace dtrain::report {
namespace {

constexpr const char* kSteps = "optimizer step";

using Get = std::function<double(const StepWindow&)>;

Series of_steps(const RunRecords& run, std::string name, const Get& get) {
  Series series{.name = std::move(name), .x = {}, .y = {}};
  for (const StepWindow& window : run.steps) {
    series.x.push_back(static_cast<double>(window.step));
    series.y.push_back(get(window));
  }
  return series;
}

Series of_evaluations(const RunRecords& run, const std::string& metric, std::string name) {
  Series series{.name = std::move(name), .x = {}, .y = {}};
  for (const RecordedEvaluation& evaluation : run.evaluations) {
    if (evaluation.split != "val") continue;
    series.x.push_back(static_cast<double>(evaluation.step));
    series.y.push_back(evaluation.metric(metric));
  }
  return series;
}

bool has_values(const Series& series) {
  return std::ranges::any_of(series.y, [](double y) { return std::isfinite(y); });
}

void number_colors(LineChart& chart) {
  for (size_t i = 0; i < chart.series.size(); ++i) chart.series[i].color = i;
}

// In the order of the task, the loss aside.
std::vector<std::string> metric_names(const RunRecords& run) {
  std::vector<std::string> names;
  for (const RecordedEvaluation& evaluation : run.evaluations) {
    if (evaluation.split != "val") continue;
    for (const auto& [name, value] : evaluation.metrics) {
      if (name != "loss" && std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

}  // namespace

std::vector<LineChart> learning_curves(const RunRecords& run) {
  std::vector<LineChart> charts = {{.title = "loss", .x_label = kSteps, .series = {}}};
  for (Series series : {of_steps(run, "training", [](const StepWindow& w) { return w.loss; }),
                        of_evaluations(run, "loss", "validation")}) {
    if (has_values(series)) charts[0].series.push_back(std::move(series));
  }
  for (const std::string& name : metric_names(run)) {
    Series series = of_evaluations(run, name, name);
    if (!has_values(series)) continue;
    const MetricKind kind = kind_of_metric(run, name);
    const std::string title = "validation" + (kind.unit.empty() ? ": " + name : ", " + kind.unit);
    auto chart = std::ranges::find_if(charts, [&](const LineChart& c) { return c.title == title; });
    if (chart == charts.end())
      chart = charts.insert(chart, LineChart{.title = title, .x_label = kSteps, .series = {}});
    chart->series.push_back(std::move(series));
  }
  for (LineChart& chart : charts) number_colors(chart);
  if (charts[0].series.empty()) charts.erase(charts.begin());
  return charts;
}

std::vector<LineChart> step_curves(const RunRecords& run) {
  std::vector<LineChart> charts;
  const auto add = [&](const std::string& title, const std::string& name, const Get& get) {
    Series series = of_steps(run, name, get);
    if (has_values(series))
      charts.push_back({.title = title, .x_label = kSteps, .series = {std::move(series)}});
  };
  add("throughput", "samples/s", [](const StepWindow& w) { return w.samples_per_second; });
  add("learning rate", "lr", [](const StepWindow& w) { return w.learning_rate; });
  add("norm of the gradient", "before clipping", [](const StepWindow& w) { return w.grad_norm; });
  add("loss scale", "fp16", [](const StepWindow& w) { return w.loss_scale; });
  return charts;
}

std::vector<LineChart> common_curves(const RunRecords& first, const RunRecords& second) {
  std::vector<LineChart> charts;
  const auto add = [&](const std::string& title,
                       const std::function<Series(const RunRecords&)>& series_of) {
    LineChart chart{
        .title = title, .x_label = kSteps, .series = {series_of(first), series_of(second)}};
    if (!has_values(chart.series[0]) || !has_values(chart.series[1])) return;
    chart.series[0].name = "run 1";
    chart.series[1].name = "run 2";
    number_colors(chart);
    charts.push_back(std::move(chart));
  };
  add("training loss", [](const RunRecords& run) {
    return of_steps(run, "", [](const StepWindow& w) { return w.loss; });
  });
  add("validation loss", [](const RunRecords& run) { return of_evaluations(run, "loss", ""); });
  for (const std::string& name : metric_names(first)) {
    add("validation " + name, [&](const RunRecords& run) { return of_evaluations(run, name, ""); });
  }
  add("samples/s", [](const RunRecords& run) {
    return of_steps(run, "", [](const StepWindow& w) { return w.samples_per_second; });
  });
  add("ms per step", [](const RunRecords& run) {
    return of_steps(run, "", [](const StepWindow& w) { return 1e3 * w.step_seconds; });
  });
  return charts;
}

AreaChart parts_over_time(const RunRecords& run) {
  AreaChart chart{.title = "ms per step", .x_label = kSteps, .x = {}, .names = {}, .layers = {}};
  for (size_t part = 0; part < kParts; ++part) {
    chart.names.emplace_back(part_name(part));
    chart.layers.emplace_back();
  }
  for (const StepWindow& window : run.steps) {
    chart.x.push_back(static_cast<double>(window.step));
    const Parts parts = parts_of(window);
    for (size_t part = 0; part < kParts; ++part) chart.layers[part].push_back(1e3 * parts[part]);
  }
  return chart;
}

}  // namespace dtrain::report

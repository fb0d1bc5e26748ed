#include "monitoring/series.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"

namespace dtrain::monitoring {
namespace {

ExportedBy exported_by(measure::QuantityScope scope) {
  switch (scope) {
    case measure::QuantityScope::kHost:
      return ExportedBy::kHost;
    case measure::QuantityScope::kSensor:
      return ExportedBy::kGpu;
    case measure::QuantityScope::kRun:
      return ExportedBy::kRank0;
    default:
      return ExportedBy::kAll;
  }
}

std::vector<SeriesRow> make_rows() {
  using Type = SeriesType;
  using Where = ExportedBy;
  std::vector<SeriesRow> rows = {
#define DTRAIN_SERIES(name, labels, type, by, help) {name, labels, type, by, help},
#include "monitoring/series.def"
#undef DTRAIN_SERIES
  };
  for (const measure::Quantity quantity : measure::all_quantities()) {
    const measure::QuantityRow& row = measure::row_of(quantity);
    const auto same = [&](const SeriesRow& other) { return other.name == row.metric; };
    if (row.metric.empty() || std::any_of(rows.begin(), rows.end(), same)) continue;
    rows.push_back({row.metric, std::string(row.label),
                    measure::counts_up(row) ? Type::kCounter : Type::kGauge, exported_by(row.scope),
                    measure::help_of(quantity)});
  }
  return rows;
}

std::string help_of(std::string_view name, SeriesType type) {
  const std::vector<SeriesRow>& rows = series_rows();
  const auto row = std::ranges::find(rows, name, &SeriesRow::name);
  DTRAIN_CHECK(row != rows.end() && row->type == type, "no such series: ", name);
  return std::string(row->help);
}

// All series of this name, as `build` makes them.
template <typename Build>
auto& family(Build build, prometheus::Registry& registry, std::string_view name, SeriesType type) {
  return build.Name(std::string(name)).Help(help_of(name, type)).Register(registry);
}

prometheus::Family<prometheus::Gauge>& gauges(prometheus::Registry& registry,
                                              std::string_view name) {
  return family(prometheus::BuildGauge(), registry, name, SeriesType::kGauge);
}

}  // namespace

const std::vector<SeriesRow>& series_rows() {
  static const std::vector<SeriesRow> rows = make_rows();
  return rows;
}

SeriesFactory::SeriesFactory(std::shared_ptr<prometheus::Registry> registry, Labels labels)
    : registry_(std::move(registry)), labels_(std::move(labels)) {}

SeriesFactory::Labels SeriesFactory::with(const Labels& more) const {
  Labels labels = labels_;
  labels.insert(more.begin(), more.end());
  return labels;
}

SeriesFactory SeriesFactory::and_labels(const Labels& more) const {
  return {registry_, with(more)};
}

prometheus::Gauge& SeriesFactory::gauge(std::string_view name, const Labels& more) const {
  return gauges(*registry_, name).Add(with(more));
}

prometheus::Counter& SeriesFactory::counter(std::string_view name, const Labels& more) const {
  return family(prometheus::BuildCounter(), *registry_, name, SeriesType::kCounter).Add(with(more));
}

prometheus::Histogram& SeriesFactory::histogram(std::string_view name,
                                                const std::vector<double>& boundaries) const {
  return family(prometheus::BuildHistogram(), *registry_, name, SeriesType::kHistogram)
      .Add(labels_, boundaries);
}

void SeriesFactory::remove(std::string_view name, prometheus::Gauge& old) const {
  gauges(*registry_, name).Remove(&old);
}

void SeriesFactory::set_known(std::string_view name, double value, const Labels& more) const {
  if (!std::isnan(value)) gauge(name, more).Set(value);
}

void SeriesFactory::start(const Exports& exports) const {
  for (const measure::QuantityRow& row : measure::quantity_rows()) {
    if (row.at_start && exports(row)) set(row, *row.at_start, 0);
  }
}

void SeriesFactory::record(const measure::Values& values, double times,
                           const Exports& exports) const {
  for (const measure::Quantity quantity : measure::all_quantities()) {
    const measure::QuantityRow& row = measure::row_of(quantity);
    if (!row.metric.empty() && !std::isnan(values[quantity]) && exports(row))
      set(row, values[quantity], times);
  }
}

void SeriesFactory::set(const measure::QuantityRow& row, double value, double times) const {
  Labels label;
  if (!row.label.empty()) label.emplace(row.label, row.value);
  if (row.kind == measure::QuantityKind::kTotal) {
    raise_to(counter(row.metric, label), value);
  } else if (measure::counts_up(row)) {
    counter(row.metric, label).Increment(std::max(0.0, value * times));
  } else {
    gauge(row.metric, label).Set(value);
  }
}

void raise_to(prometheus::Counter& counter, double total) {
  counter.Increment(std::max(0.0, total - counter.Value()));
}

}  // namespace dtrain::monitoring

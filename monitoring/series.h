#pragma once

// What Prometheus can ask dtrain for: the table of all series (series.def, and the quantities that
// have a metric), and a factory that registers them. Every name and its HELP stand in a table, from
// which docs/metrics.md is generated.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "measure/rank_sample.h"
#include "text/named_enum.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
}  // namespace prometheus

namespace dtrain::monitoring {

enum class SeriesType { kCounter, kGauge, kHistogram };
constexpr auto names_of(SeriesType) { return names("counter", "gauge", "histogram"); }

// kAll: every rank. kHost: the first rank of a host. kGpu: a rank with a GPU and NVML. kLaunch:
// `dtrain launch`.
enum class ExportedBy { kAll, kRank0, kHost, kGpu, kLaunch };
constexpr auto names_of(ExportedBy) { return names("all", "0", "host", "gpu", "launch"); }

struct SeriesRow {
  std::string_view name;
  std::string labels;  // beside those of the process, separated by commas
  SeriesType type;
  ExportedBy by;
  std::string_view help;
};

// Those of series.def in its order, and then those of the quantities. Each name once.
const std::vector<SeriesRow>& series_rows();

// A table of docs/metrics.md, in Markdown. `name`: series, gpu series, launch series, or quantities
// (every measured value in the records of ranks, measure/quantity.h); DataError for another one.
std::string metric_table(std::string_view name);

// Registers series of the table in a registry. A series that is registered again is the same one;
// that takes a lock, so what each step needs should be kept. An internal error if the table has no
// such name. Thread-safety: that of the registry, which all calls may share.
class SeriesFactory {
 public:
  using Labels = std::map<std::string, std::string>;

  // `labels`: those that all its series have.
  SeriesFactory(std::shared_ptr<prometheus::Registry>, Labels labels);

  SeriesFactory and_labels(const Labels& more) const;  // whose series have these too

  prometheus::Gauge& gauge(std::string_view name, const Labels& more = {}) const;
  prometheus::Counter& counter(std::string_view name, const Labels& more = {}) const;
  prometheus::Histogram& histogram(std::string_view name,
                                   const std::vector<double>& boundaries) const;
  void remove(std::string_view name, prometheus::Gauge&) const;

  // Sets a gauge unless the value is NaN: what was not measured is absent.
  void set_known(std::string_view name, double value, const Labels& more = {}) const;

  // The quantities that have a metric, where the caller is the one that exports them.
  using Exports = std::function<bool(const measure::QuantityRow&)>;
  // Those with a value from the start.
  void start(const Exports&) const;
  // Raises counters and sets gauges, but for what is NaN. `times`: the steps of a sum per step, or
  // the seconds of a rate.
  void record(const measure::Values&, double times, const Exports&) const;

 private:
  Labels with(const Labels& more) const;
  void set(const measure::QuantityRow&, double value, double times) const;

  std::shared_ptr<prometheus::Registry> registry_;
  Labels labels_;
};

// Raises a counter to a total that is kept elsewhere; never lowers it.
void raise_to(prometheus::Counter&, double total);

}  // namespace dtrain::monitoring

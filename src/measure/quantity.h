#pragma once

// The one table of what a run measures of its ranks and hosts between two logging steps
// (quantities.def). metrics.jsonl, Prometheus, the live page, the reader of the report, the verdict
// and docs/metrics.md iterate over it. Constant; plain values.

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>

namespace dtrain::measure {

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

enum class Quantity : size_t {
#define DTRAIN_QUANTITY(name, ...) name,
#include "measure/quantities.def"
#undef DTRAIN_QUANTITY
  kCount
};
inline constexpr size_t kQuantities = static_cast<size_t>(Quantity::kCount);

// What the value of a window is, and how those of consecutive windows become one value per step.
enum class QuantityKind {
  kSum,    // a sum over the window, divided by its steps
  kRate,   // a rate per second, multiplied by the seconds of a step
  kMean,   // a mean over the window, weighted by QuantityRow::weight
  kMax,    // the highest value
  kLast,   // the value at the end of the window
  kTotal,  // a count since the run began: its growth since the end of the first window, by steps
};

// Whose value it is. The ranks of a host measure the same value, and all ranks that of a run. kGpu:
// unknown on the CPU. kSensor: unknown without NVML, too; its series follows each reading.
enum class QuantityScope { kRank, kHost, kGpu, kSensor, kRun };

struct QuantityRow {
  // Place in metrics.jsonl: the object in a rank's record ("": the record itself), and the key.
  std::string_view group = {}, key = {};  // key "": not in the file
  std::string_view unit = {};             // "s", "bytes", "share" (0 to 1), ...
  bool whole = false;                     // a whole number in metrics.jsonl
  QuantityKind kind = QuantityKind::kSum;
  QuantityScope scope = QuantityScope::kRank;
  // What weighs a kMean. kCount, or a weight that is unknown: the steps of the window.
  Quantity weight = Quantity::kCount;
  // Name in Prometheus, "" if not exported: a counter for kSum, kRate and kTotal, else a gauge.
  std::string_view metric = {};
  std::string_view label = {}, value = {};  // tell rows with the same metric apart
  // What its series shows until it is measured; none: it is absent.
  std::optional<double> at_start = {};
  std::string_view title = {};    // its column on the live page; "": none
  std::string_view missing = {};  // what a verdict says if it was not measured
  std::string_view help = {};     // stands in the first of several rows with one metric
};

const std::array<QuantityRow, kQuantities>& quantity_rows();
const QuantityRow& row_of(Quantity);

// For loops over all of them, in the order of the table.
const std::array<Quantity, kQuantities>& all_quantities();

// Whether its series counts up. The others are gauges.
constexpr bool counts_up(const QuantityRow& row) {
  return row.kind == QuantityKind::kSum || row.kind == QuantityKind::kRate ||
         row.kind == QuantityKind::kTotal;
}

// Whether a rank on the CPU cannot have it.
constexpr bool needs_gpu(const QuantityRow& row) {
  return row.scope == QuantityScope::kGpu || row.scope == QuantityScope::kSensor;
}

// The help of a row, or else that of the first row with the same metric.
std::string_view help_of(Quantity);

}  // namespace dtrain::measure

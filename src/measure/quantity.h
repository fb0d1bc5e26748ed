#pragma once

// The one table of what a run measures of its ranks and hosts between two logging steps
// (quantities.def). metrics.jsonl, Prometheus, the live page, the reader of the report, the verdict
// and docs/metrics.md iterate over it. Constant; plain values.

#include <array>
#include <cstddef>
#include <string_view>

#include "core/named_enum.h"

namespace dtrain::measure {

enum class Quantity : size_t {
#define DTRAIN_QUANTITY(name, ...) name,
#include "measure/quantities.def"
#undef DTRAIN_QUANTITY
  kCount
};
inline constexpr size_t kQuantities = static_cast<size_t>(Quantity::kCount);

// What the value of a window is, and how those of consecutive windows become one value per step.
enum class Kind {
  kSum,    // of the window; divided by its steps
  kRate,   // per second in the window; multiplied by the seconds of a step
  kMean,   // over the window; the mean, weighted by QuantityRow::weight
  kMax,    // the highest in the window; the highest
  kLast,   // at the end of the window; the last one
  kTotal,  // since the run began; its growth since the end of the first window, by steps
};
constexpr auto names_of(Kind) { return names("sum", "rate", "mean", "max", "last", "total"); }

// What is measured. The ranks of a host measure the same of it. kGpu: nothing on the CPU.
enum class Scope { kRank, kHost, kGpu };
constexpr auto names_of(Scope) { return names("rank", "host", "gpu"); }

struct QuantityRow {
  // In metrics.jsonl: the object in the record of a rank ("": the record itself), and its key.
  std::string_view group = {}, key = {};  // key "": not in the file
  std::string_view unit = {};             // "s", "bytes", "share" (0 to 1), ...
  Kind kind = Kind::kSum;
  Scope scope = Scope::kRank;
  // Of a kMean. kCount, or one that is unknown: the steps of the window.
  Quantity weight = Quantity::kCount;
  // In Prometheus: a counter for kSum and kRate, a gauge for the others. "": not exported.
  std::string_view metric = {};
  std::string_view label = {}, value = {};  // that tells rows with the same metric apart
  std::string_view title = {};              // of the column on the live page; "": it has none
  std::string_view missing = {};            // what a verdict says that was not measured without it
  std::string_view help = {};               // stands in the first of several rows with one metric
};

const std::array<QuantityRow, kQuantities>& quantity_rows();
const QuantityRow& row_of(Quantity);

// For loops over all of them, in the order of the table.
const std::array<Quantity, kQuantities>& all_quantities();

// The help of a row, or else that of the first row with the same metric.
std::string_view help_of(Quantity);

}  // namespace dtrain::measure

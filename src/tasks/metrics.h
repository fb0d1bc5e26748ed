#pragma once

// What an evaluation counts and what becomes of it. Counts add up over batches and ranks and are
// divided once, so that a macro F1 or a histogram is as exact on many ranks as on one.

#include <torch/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/table.h"

namespace dtrain::tasks {

// Counts by name, float64 on the device: the same names and shapes for every batch.
using Counts = std::vector<std::pair<std::string, at::Tensor>>;

inline const at::Tensor& count_of(const Counts& counts, std::string_view name) {
  for (const auto& [known, tensor] : counts) {
    if (known == name) return tensor;
  }
  throw Error(str("internal error: nothing counts '", name, "'"));
}

// A count that is one number. Waits for the device.
inline double number_of(const Counts& counts, std::string_view name) {
  return count_of(counts, name).item<double>();
}

struct Counted {
  Counts sums;
  // [B] float64, the larger the worse (the worst samples that eval names); may be undefined
  at::Tensor errors;
};

struct MetricSpec {
  std::string name;  // e.g. "mae_yaw"
  bool higher_is_better = false;
  // e.g. "degrees": metrics of one unit share a chart; "": of the loss alone
  std::string unit = {};
  // one of a task's metrics: it chooses the best checkpoint unless train.metric names another
  bool primary = false;
};
inline MetricSpec share_metric(std::string name) {  // accuracy, precision, F1, ...: 1 is perfect
  return {.name = std::move(name), .higher_is_better = true, .unit = "share"};
}
inline MetricSpec primary(MetricSpec metric) {
  metric.primary = true;
  return metric;
}

using Table = dtrain::Table;

struct Summary {
  std::vector<std::pair<std::string, double>> metrics;  // same order as Task::metrics()
  std::vector<Table> tables;
};

}  // namespace dtrain::tasks

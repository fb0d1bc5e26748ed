#pragma once

// What `dtrain eval` prints: metrics in the task's order, its tables, the worst samples. Pure: text
// from numbers.

#include <string>
#include <vector>

#include "core/table.h"
#include "monitoring/step_stats.h"

namespace dtrain::cli {

struct EvalReport {
  std::string checkpoint;
  std::string chosen = {};  // how, among the checkpoints of its run; may be empty
  std::string data;
  std::string protocol = {};  // how the data were chosen; may be empty
  std::string task, network, precision;
  monitoring::EvalStats stats = {};
  struct Worst {
    int64_t id = 0;
    double error = 0;
    std::string source;  // path of the file that was converted
  };
  std::vector<Worst> worst = {};
  std::vector<std::string> warnings = {};  // e.g. samples left out
};

std::string to_text(const EvalReport&);
std::string to_json(const EvalReport&);  // one object; NaN is null

// Columns aligned, rows named; whole numbers without a fraction, NaN as "-". A square table of more
// than `most_columns` columns (a confusion matrix of many classes) is replaced by one line that
// says so.
std::string to_text(const Table&, size_t most_columns = 20);

}  // namespace dtrain::cli

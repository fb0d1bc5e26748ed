#pragma once

// A part of the training, whole epochs long: what learns in it and which metrics it moves. Most
// tasks have one phase in which everything learns.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace dtrain::tasks {

struct TrainingPhase {
  std::string name = "train";
  // Factor of optimizer.lr for a parameter of this name; 0: it does not learn in this phase. Empty:
  // 1 for all, and what the network itself keeps from learning stays so.
  std::function<double(const std::string& parameter)> lr_ratio = {};
  // The metrics that training in this phase moves; in the others they tell nothing of the training.
  // Empty: all.
  std::vector<std::string> metrics = {};

  bool moves(const std::string& metric) const {
    return metrics.empty() || std::ranges::count(metrics, metric) > 0;
  }
};

}  // namespace dtrain::tasks

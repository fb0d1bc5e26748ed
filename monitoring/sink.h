#pragma once

// A place that the numbers of a run go to: the console, metrics.jsonl, TensorBoard, Prometheus. The trainer calls every
// sink at each step. A sink that cannot write logs one warning and never stops training.

#include <memory>
#include <string>
#include <vector>

#include "monitoring/step_stats.h"

namespace dtrain::monitoring {

// Thread-safety: all calls come from one thread.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void record(const StepStats&) = 0;  // after each optimizer step
  virtual void record(const EvalStats&) = 0;  // after each evaluation
  virtual void checkpoint_saved(int64_t /*step*/, double /*seconds*/) {}
  // What the run does now: "starting", "training", "evaluating", "saving", "finished" or "failed".
  virtual void state(const std::string& /*state*/) {}
};

using Sinks = std::vector<std::unique_ptr<Sink>>;

}  // namespace dtrain::monitoring

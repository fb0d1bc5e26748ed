#pragma once

// Where numbers go: console, metrics.jsonl, tfevents, Prometheus. The trainer calls every sink on each step; a sink
// that cannot write says so once and never stops training.

#include <memory>
#include <string>
#include <vector>

#include "monitoring/step_stats.h"

namespace dtrain::monitoring {

class Sink {
 public:
  virtual ~Sink() = default;
  virtual void record(const StepStats&) = 0;
  virtual void record(const EvalStats&) = 0;
  virtual void checkpoint_saved(int64_t /*step*/, double /*seconds*/) {}
  virtual void state(const std::string& /*state*/) {
  }  // "starting" | "training" | "evaluating" | "saving" | "finished" | "failed"
};

using Sinks = std::vector<std::unique_ptr<Sink>>;

}  // namespace dtrain::monitoring

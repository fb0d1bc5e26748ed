#pragma once

// A place that the numbers of a run go to: the console, metrics.jsonl, TensorBoard, Prometheus. The
// trainer calls every sink at each step. A sink that cannot write logs one warning and never
// stops training.

#include <memory>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "monitoring/step_stats.h"
#include "monitoring/verdict_record.h"
#include "text/named_enum.h"

namespace dtrain::monitoring {

// Evaluating and saving are states of their own, so that a long one of them does not look like
// a stall.
enum class LiveState { kStarting, kTraining, kEvaluating, kSaving, kFinished, kFailed };
constexpr auto names_of(LiveState) {
  return names("starting", "training", "evaluating", "saving", "finished", "failed");
}

// How a process leaves the run.
struct RunEnd {
  LiveState state = LiveState::kFinished;  // or kFailed
  int exit_code = 0;
  std::string reason;        // message of the error, or why training stopped
  std::string failure = "";  // after a failure: the record of dist/supervisor_lines.h as JSON
};

// Thread-safety: all calls come from one thread.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void record(const StepStats&) = 0;  // after each optimizer step
  virtual void record(const EvalStats&) = 0;  // after each evaluation
  virtual void checkpoint_saved(int64_t /*step*/, double /*seconds*/) {}
  virtual void state(LiveState) {}  // what the run does now
  virtual void end(const RunEnd& end) { state(end.state); }
  virtual void progress(const Progress&) {}  // during an evaluation, after each batch
  virtual void verdict(const VerdictRecord&) {
  }  // on rank 0: after 20 steps, every minute, on request, at the end
};

using Sinks = std::vector<std::unique_ptr<Sink>>;

}  // namespace dtrain::monitoring

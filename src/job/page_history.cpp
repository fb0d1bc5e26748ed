// The curves of a resumed run on its live page.

#include "core/error.h"
#include "core/log.h"
#include "job/run_display.h"
#include "report/read_run.h"
#include "text/strings.h"

namespace dtrain::job {
namespace {

monitoring::StepStats stats_of(const report::StepWindow& window) {
  monitoring::StepStats s;
  s.step = window.step;
  s.epoch = window.epoch;
  s.logging = true;
  s.loss = window.loss;
  s.learning_rate = window.learning_rate;
  s.grad_norm = window.grad_norm;
  s.samples_per_second = window.samples_per_second;
  s.step_seconds = window.step_seconds;
  s.other_seconds = window.other_seconds;
  s.phase_seconds = window.phase_seconds;
  s.values = {{measure::Quantity::kLossScale, window.loss_scale},
              {measure::Quantity::kMemory, window.memory_bytes}};
  return s;
}

monitoring::EvalStats stats_of(const report::RunRecords& run,
                               const report::RecordedEvaluation& evaluation) {
  monitoring::EvalStats e;
  e.step = evaluation.step;
  e.epoch = evaluation.epoch;
  e.split = evaluation.split;
  e.metrics = evaluation.metrics;
  e.samples = evaluation.samples;
  e.seconds = evaluation.seconds;
  for (const auto& [name, value] : evaluation.metrics) {
    const std::string unit = report::kind_of_metric(run, name).unit;
    if (!unit.empty()) e.units[name] = unit;
  }
  return e;
}

}  // namespace

void show_earlier(monitoring::LivePage& page, const std::filesystem::path& run) {
  try {
    const report::RunRecords records = report::read_run(run, /*own=*/true);
    for (const report::StepWindow& window : records.steps)
      page.earlier(stats_of(window), window.time);
    for (const report::RecordedEvaluation& evaluation : records.evaluations) {
      page.earlier(stats_of(records, evaluation), evaluation.time);
    }
  } catch (const Error& error) {
    log::to_file(str("the live page does not show what the run did before: ", error.what()));
  }
}

}  // namespace dtrain::job

#include "tune/tuner.h"

#include <chrono>
#include <utility>

#include "core/clock.h"
#include "tune/memory_stage.h"
#include "tune/stages.h"
#include "tune/trials.h"

namespace dtrain::tune {

TuneResult tune(job::ProcessContext& process, const config::Loaded& loaded,
                const TuneOptions& options, const std::atomic<bool>& stop,
                const ReportProgress& report) {
  const auto began = std::chrono::steady_clock::now();
  TuneResult result{.run = look_at(process, loaded, options)};
  TuneTime time(process, result.run.options, began, stop, report);
  const Trials trials(process, result.run, time);
  TuneState found = find_largest_batch(trials);
  found = choose_network(trials, std::move(found));
  found = choose_batch(trials, std::move(found));
  found = choose_loader(trials, std::move(found));
  found = compare(trials, std::move(found));
  if (result.run.options.range_test) found = test_rates(trials, std::move(found));
  trials.leave_run();
  result.found = std::move(found);
  result.interrupted = time.was_stopped();
  if (!result.interrupted) time.show_end();
  result.seconds = seconds_since(began);
  return result;
}

}  // namespace dtrain::tune

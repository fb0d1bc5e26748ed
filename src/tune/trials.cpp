#include "tune/trials.h"

#include <algorithm>
#include <cmath>

#include "core/clock.h"
#include "core/log.h"
#include "device/device.h"
#include "dist/object_collectives.h"
#include "text/strings.h"

namespace dtrain::tune {
namespace {

using job::StepProbe;
using measure::Phase;

constexpr int64_t kMostSteps = 1000;
constexpr double kOfTuning = 0.75;  // tuning's share of the minutes if the range test has the rest

// Of a micro-step of the slowest rank.
double micro_seconds(const StepProbe& probe) {
  double slowest = 0;
  for (const train::MeasuredSteps& rank : probe.ranks) {
    double own = 0;
    for (const Phase phase : {Phase::kDataWait, Phase::kH2d, Phase::kForward, Phase::kBackward}) {
      own += rank.phase_seconds[static_cast<size_t>(phase)];
    }
    slowest = std::max(slowest, own / static_cast<double>(rank.steps));
  }
  return slowest;
}

RoundLimits round_limits(double overhead, double longest) {
  const double shortest = std::clamp(0.5 * overhead, 0.1, 1.0);
  return {.overhead = overhead, .shortest = std::min(shortest, longest), .longest = longest};
}

// Most of what a trial takes beside its measurement are steps, which take longer with more samples.
double expected_overhead(const TrialOverhead& last, const StepBatches& batches,
                         const std::vector<TunedSettings>& candidates) {
  constexpr double kWithoutSteps = 0.2;
  if (last.batch_size == 0) return last.seconds;
  double samples = 0;
  for (const TunedSettings& one : candidates)
    samples += static_cast<double>(batches.micro_batch_of(one.batch_size));
  const double batch = samples / static_cast<double>(candidates.size());
  return last.seconds * std::max(kWithoutSteps, batch / static_cast<double>(last.batch_size));
}

}  // namespace

std::string left_out_of(Stage stage, size_t candidates, const Halving& halving) {
  constexpr const char* kNoTime = ", for which --minutes do not suffice";
  const size_t measured = halving.candidates.size();
  if (measured < candidates) {
    return str(stage, ": ", candidates - measured, " of ", candidates, " candidates", kNoTime);
  }
  return halving.stopped ? str(stage, ": longer measurements of the best candidates", kNoTime) : "";
}

TuneTime::TuneTime(const job::ProcessContext& process, const TuneOptions& options, Time began,
                   const std::atomic<bool>& stop, const ReportProgress& report)
    : process_(process), options_(options), began_(began), stop_(stop), report_(report) {}

double TuneTime::left_in_all() const {
  return dist::broadcast_object(process_.host, minutes_in_seconds() - seconds_since(began_));
}

double TuneTime::left() const {
  return left_in_all() - (options_.range_test ? (1 - kOfTuning) * minutes_in_seconds() : 0);
}

bool TuneTime::stopped() {
  if (stopped_) return true;
  const std::vector<int> asked = dist::all_gather_object(process_.host, int{stop_.load()});
  stopped_ = std::ranges::find(asked, 1) != asked.end();
  return stopped_;
}

void TuneTime::show(Stage stage, bool begins_trial) {
  shown_ = stage;
  in_trial_ = begins_trial;
  if (begins_trial) ++trials_begun_;
  show_again();
}

void TuneTime::report(const char* stage, bool ended) const {
  if (process_.world.rank != 0) return;
  const auto passed = static_cast<int64_t>(1000 * seconds_since(began_));
  // The last trial may take longer than the minutes: the work has not ended then.
  const auto limit = std::max(static_cast<int64_t>(1000 * minutes_in_seconds()), passed + 1);
  report_({.stage = stage,
           .done = passed,
           .total = ended ? passed : limit,
           .unit = Progress::Unit::kMilliseconds,
           .trials = trials_begun_ - (in_trial_ && !ended ? 1 : 0)});
}

const job::ConnectedRun& Trials::run_for(const TunedSettings& settings) const {
  if (run_ && same_network(run_settings_, settings)) return *run_;
  leave_run();
  const log::Quiet quiet;  // it says the same each time
  config::Loaded loaded = tuned_.loaded;
  apply(settings, loaded.config);
  run_.emplace(job::plan_training(process_, loaded, /*dry_run=*/true)
                   .open_data()
                   .make_task()
                   .place_on_device()
                   .connect());
  run_settings_ = settings;
  return *run_;
}

void Trials::leave_run() const {
  if (!run_) return;
  run_->end_watch();
  run_.reset();
  device::give_back_memory(process_.device);
}

StepProbe Trials::probe(const TunedSettings& settings, int64_t accumulate, int64_t warm_steps,
                        double seconds) const {
  return job::probe_step(run_for(settings),
                         {.batch_size = tuned_.batches.micro_batch_of(settings.batch_size),
                          .accumulate = accumulate,
                          .change = [&](config::Config& config) { apply(settings, config); },
                          .warm_steps = warm_steps,
                          .steps = kMostSteps,
                          .seconds = seconds,
                          .details = false});
}

double Trials::rate_with(const StepProbe& probe, const TunedSettings& settings) const {
  const StepBatches& batches = tuned_.batches;
  const int64_t more = batches.accumulate_of(settings.batch_size) - probe.accumulate;
  const double step = step_seconds_with(more + 1, probe.step_seconds(), micro_seconds(probe));
  return probe.length_ratio() * static_cast<double>(batches.step_samples_of(settings.batch_size)) /
         step;
}

std::optional<double> Trials::rate_of(Stage stage, const TunedSettings& settings, double seconds,
                                      TrialOverhead& overhead) const {
  // One rate is needed in any case.
  if (stopped() || (left() <= 0 && overhead.batch_size > 0)) return std::nullopt;
  time_.show(stage, /*begins_trial=*/true);
  const auto began = std::chrono::steady_clock::now();
  const StepProbe measured = probe(settings, /*accumulate=*/1, /*warm_steps=*/2, seconds);
  if (!measured.measured()) {
    log::info(str(stage, ": ", text_of(settings), ": ", measured.out_of_memory));
    return std::nan("");
  }
  const double timed = measured.step_seconds() * static_cast<double>(measured.ranks.front().steps);
  overhead = {
      .seconds = dist::broadcast_object(process_.host, std::max(0.0, seconds_since(began) - timed)),
      .batch_size = tuned_.batches.micro_batch_of(settings.batch_size)};
  const double samples_per_second = rate_with(measured, settings);
  log::info(str(stage, ": ", text_of(settings), ": ", fixed(samples_per_second, 1), " samples/s"));
  return samples_per_second;
}

std::optional<double> Trials::final_rate(const TunedSettings& settings, bool whole) const {
  time_.show(Stage::kResult, /*begins_trial=*/true);
  const int64_t accumulate = whole ? tuned_.batches.accumulate_of(settings.batch_size) : 1;
  const StepProbe measured =
      probe(settings, accumulate, /*warm_steps=*/1, tuned_.options.seconds / 2);
  if (!measured.measured()) return std::nullopt;
  return rate_with(measured, settings);
}

double first_look_seconds(const TuneOptions& options, const TrialOverhead& last) {
  return round_limits(last.seconds, options.seconds).shortest;
}

std::optional<TunedSettings> choose(const Trials& trials, TuneState& found, Stage stage,
                                    KeyGroup group, const std::vector<TunedSettings>& candidates,
                                    double tolerance, double seconds) {
  const TunedRun& run = trials.run();
  std::vector<double> costs;
  for (TunedSettings one : candidates) {
    one.batch_size = run.batches.micro_batch_of(one.batch_size);  // which the run makes of it
    costs.push_back(cost_of(group, one, run.given));
  }
  const double overhead = expected_overhead(found.overhead, run.batches, candidates);
  const std::vector<Round> rounds =
      plan_rounds(candidates.size(), seconds, round_limits(overhead, run.options.seconds));
  const Halving halving = halve(costs, rounds, tolerance, [&](size_t index, double timed) {
    return trials.rate_of(stage, candidates[index], timed, found.overhead);
  });
  std::optional<TunedSettings> chosen;
  for (const Candidate& one : halving.candidates) {
    const bool wins = one.index == halving.winner;
    found.rows.push_back({.stage = stage,
                          .settings = candidates[one.index],
                          .samples_per_second = one.rate,
                          .seconds = one.seconds,
                          .chosen = wins,
                          .note = std::isnan(one.rate) ? "out of memory" : ""});
    if (!wins) continue;
    chosen = candidates[one.index];
    found.rate = one.rate;
  }
  const std::string left_out =
      trials.stopped() ? "" : left_out_of(stage, candidates.size(), halving);
  if (!left_out.empty()) found.left_out.push_back(left_out);
  return chosen;
}

}  // namespace dtrain::tune

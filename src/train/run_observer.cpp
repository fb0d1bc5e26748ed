#include "train/run_observer.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"
#include "diagnose/verdict.h"
#include "dist/agree.h"
#include "dist/device_wait.h"
#include "dist/object_collectives.h"
#include "text/strings.h"
#include "train/precision.h"
#include "train/run_evidence.h"

namespace dtrain::train {
namespace {

using measure::Quantity;
using monitoring::StepStats;
using SteadyClock = std::chrono::steady_clock;

// A run whose last steps were all skipped no longer trains.
constexpr int64_t kMostSkippedInARow = 50;

// The step in which the warm-up is over: a step ends where the next one begins. What is measured
// from here on is not mixed with the warm-up, however seldom the run logs.
constexpr auto kWarmedUp = static_cast<int64_t>(measure::RunMeasurements::kWarmUpSteps) + 1;

// With this step of the process a verdict comes at the latest: 100 steps have ended when step 101
// is reported.
constexpr int64_t kFirstVerdict = 101;
constexpr auto kTooEarlyForVerdict =
    static_cast<int64_t>(measure::RunMeasurements::kWarmUpSteps + diagnose::kFewestSteps);

std::string text_of(const std::vector<int64_t>& lengths) {
  std::vector<std::string> words;
  for (const int64_t length : lengths) words.push_back(str(length));
  return join(words, ", ");
}

}  // namespace

RunObserver::RunObserver(StepRunner& steps)
    : steps_(steps),
      context_(steps.context()),
      measurements_(context_.host),
      meter_(context_.cores, context_.device_facts.pci_bus_id) {}

// ---- before the first step ----------------------------------------------------------------------

void RunObserver::begin() {
  nodes_ = dist::all_gather_object(context_.host, context_.node);
  const std::vector<int64_t>& lengths = steps_.loader().length_classes();
  if (context_.host.rank() == 0 && !lengths.empty())
    log::info(str("batches are padded to these numbers of rows: ", text_of(lengths)));
  steps_.probe_network();
  probe_headroom();
}

void RunObserver::begin_training() {
  carried_.gradients = context_.gradients.traffic();
  if (context_.statistics) carried_.statistics = context_.statistics->traffic();
  begin_window();
  set_state(monitoring::LiveState::kTraining);
}

void RunObserver::resume(int64_t skipped, int64_t step) { skipped_ = SkippedSteps(skipped, step); }

void RunObserver::probe_headroom() {
  if (context_.headroom_seconds <= 0 || context_.batches.total_steps - steps_.steps() < 2) return;
  const auto began = SteadyClock::now();
  const MeasuredSteps measured = steps_.measure_headroom(context_.headroom_seconds);
  meter_.sample(steps_.loader().stats());  // the next sample begins here
  device::give_back_memory(context_.device);
  device::forget_peak(context_.device);  // the run's peak is that of its own steps
  const auto steps = static_cast<double>(measured.steps);
  headroom_ = measured;
  headroom_.seconds = dist::largest_of_ranks(context_.host, measured.seconds);
  log::info(str("with batches from memory a step takes ", fixed(1e3 * headroom_.seconds / steps, 2),
                " ms, ", fixed(static_cast<double>(measured.samples) / headroom_.seconds, 1),
                " samples/s: what the run would do if loading were free (measured in ",
                fixed(seconds_since(began), 1), " s; it changes nothing in the training)"));
}

// ---- the steps ----------------------------------------------------------------------------------

bool RunObserver::wants_to_log_next() const {
  return steps_.own_steps() + 1 == kFirstVerdict && logged_own_step_ <= kTooEarlyForVerdict;
}

void RunObserver::report(StepStats& stats, bool verdict_asked) {
  stats.steps_per_epoch = context_.batches.steps_per_epoch;
  stats.epochs = context_.config.train.epochs;
  stats.total_steps = context_.batches.total_steps;
  stats.loader_queue = steps_.loader().queue_depth();
  window_.add(stats, steps_.loader().bytes_read());
  if (stats.logging) {
    complete(stats);
  } else if (steps_.own_steps() == kWarmedUp) {
    // As a logging step: with NCCL the host waits for the other ranks here.
    steps_.tracker().wait_for_others();
    dist::wait_for_device(context_.device, {&context_.gradients, context_.statistics});
    gather();
    stats.own = measurements_.own();
  }
  for (const auto& sink : context_.sinks) sink->record(stats);
  if (!stats.logging) return;
  judge(verdict_asked);
  check_finite(stats);
  check_run_folder();
}

void RunObserver::complete(StepStats& stats) {
  PhaseClock& clock = steps_.tracker().clock();
  clock.synchronize();
  const auto now = SteadyClock::now();
  logged_own_step_ = steps_.own_steps();
  window_.summarize(stats, now, clock.totals());
  stats.values.set(memory());
  stats.collectives = collectives();
  const Consumption::Report consumed =
      steps_.consumption().report(context_.host, steps_.loader().bad_ids());
  stats.ledger = consumed.totals.ledger;
  stats.bad_samples = consumed.totals.bad_samples;
  stats.padding_waste = consumed.padding_waste;
  reported_ = stats.values;
  gather({{Quantity::kQueue,
           window_.mean_queue(stats) / static_cast<double>(context_.config.data.prefetch)}});
  stats.ranks = measurements_.last();
  stats.own = measurements_.own();
  // This step ends where the next one begins.
  stats.slowest = measurements_.slowest(steps_.steps() - 1);
  window_.begin(steps_.steps(), now, clock.totals());
  check_samples_are_left(stats.bad_samples);
}

measure::Values RunObserver::memory() const {
  const device::MemoryUse use = device::memory_use(context_.device);
  const auto allocated = static_cast<double>(use.allocated);
  return {{Quantity::kMemory, allocated},
          {Quantity::kDeviceMemory, static_cast<double>(context_.device_facts.memory_bytes)},
          {Quantity::kMemoryAllocated, allocated},
          {Quantity::kMemoryReserved, static_cast<double>(use.reserved)},
          {Quantity::kMemoryPeak, static_cast<double>(use.peak)},
          {Quantity::kAllocatorRetries, static_cast<double>(use.retries)},
          {Quantity::kOutOfMemory, static_cast<double>(use.failures)}};
}

void RunObserver::evaluated(const monitoring::EvalStats& stats) {
  rare_.evaluations.add(stats.seconds);
  for (const auto& sink : context_.sinks) sink->record(stats);
  set_state(monitoring::LiveState::kTraining);
}

void RunObserver::begin_window() {
  const auto now = SteadyClock::now();
  steps_.tracker().clock().synchronize();
  window_.begin(steps_.steps(), now, steps_.tracker().clock().totals());
}

void RunObserver::saved(double seconds, bool best) {
  const int64_t step = steps_.steps();
  if (step < context_.batches.total_steps) (best ? rare_.saves_of_best : rare_.saves).add(seconds);
  for (const auto& sink : context_.sinks) sink->checkpoint_saved(step, seconds);
  set_state(monitoring::LiveState::kTraining);
}

void RunObserver::set_state(monitoring::LiveState state) {
  for (const auto& sink : context_.sinks) sink->state(state);
}

// Every kind of operation that has run.
std::vector<monitoring::CollectiveStats> RunObserver::collectives() const {
  std::vector<monitoring::CollectiveStats> all;
  const auto add = [&all](const char* name, dist::MeteredCommunicator* communicator,
                          const dist::Traffic& before) {
    if (communicator == nullptr) return;
    const dist::Traffic traffic = communicator->traffic();
    for (size_t i = 0; i < traffic.size(); ++i) {
      const int64_t bytes = traffic[i].bytes - before[i].bytes;
      const double seconds = traffic[i].seconds - before[i].seconds;
      if (bytes == 0 && seconds == 0) continue;
      all.push_back({name, dist::kCollectiveNames[i], static_cast<double>(bytes), seconds});
    }
  };
  add("gradients", &context_.gradients, carried_.gradients);
  add("statistics", context_.statistics, carried_.statistics);
  add("host", &context_.host, {});
  return all;
}

// ---- measurements and the verdict ---------------------------------------------------------------

measure::RankSample RunObserver::used_resources() {
  measure::RankSample used = meter_.sample(steps_.loader().stats());
  if (context_.take_gpu_use) used.values.set(context_.take_gpu_use());
  used.values.set(reported_);
  used.values.set({{Quantity::kLoaderThreads, context_.loader_threads},
                   {Quantity::kComputeThreads, at::get_num_threads()}});
  if (context_.host_cores > 0) used.values[Quantity::kHostCores] = context_.host_cores;
  if (context_.device.is_cuda())
    used.values[Quantity::kGpuCapability] = context_.device_facts.capability;
  const size_t ended = steps_.tracker().clock().ended_steps();
  used.steps = static_cast<double>(ended - std::exchange(steps_of_resources_, ended));
  return used;
}

void RunObserver::gather(const measure::Values& more, bool of_steps_alone) {
  PhaseClock& clock = steps_.tracker().clock();
  clock.synchronize();
  measure::RankSample used = used_resources();
  used.values.set(more);
  measurements_.gather(clock.take_steps(), used, of_steps_alone);
}

void RunObserver::judge(bool asked) {
  constexpr auto kInterval = std::chrono::minutes(1);
  if (context_.host.rank() != 0) return;
  const bool enough = measurements_.steps()[0].size() >= diagnose::kFewestSteps;
  const auto now = context_.clock.now();
  if (!asked && (!enough || now < next_verdict_)) return;
  next_verdict_ = now + kInterval;
  const diagnose::Verdict verdict = diagnose::judge(evidence());
  if (asked) log::plain(diagnose::text_of(verdict));
  for (const auto& sink : context_.sinks)
    sink->verdict(diagnose::record_of(verdict, steps_.steps()));
}

diagnose::RunEvidence RunObserver::evidence() {
  diagnose::RunEvidence run = evidence_of(context_, measurements_, nodes_, steps_.steps());
  if (run.ranks.empty()) return run;
  run.cached_step = cached_step_for(headroom_, run.ranks[0].steps, context_.batches);
  run.ended_steps = static_cast<double>(steps_.own_steps());
  run.evaluations = rare_.evaluations;
  run.saves = rare_.saves;
  run.saves_of_best = rare_.saves_of_best;
  run.network = network_use(steps_.phases().reducer(), steps_.all_reduce_cost(),
                            context_.config.dist.first_bucket_mb);
  return run;
}

diagnose::RunEvidence RunObserver::conclude() {
  gather({}, /*of_steps_alone=*/false);  // an evaluation or a test may have followed
  return evidence();
}

// ---- checks -------------------------------------------------------------------------------------

void RunObserver::check_samples_are_left(int64_t bad_samples) const {
  const auto all = static_cast<int64_t>(context_.splits.train.size());
  if (bad_samples < all) return;
  throw DataError(str(
      "all ", all,
      " training samples were left out (data.on_bad_sample: skip); the warnings above say why"));
}

void RunObserver::check_losses() const {
  const BadLosses::Found found = steps_.bad_losses().gather(context_.host);
  if (found.bad == 0) return;
  const std::string against = against_overflow(context_.precision, context_.device.type(),
                                               context_.device_facts.capability);
  throw NumericsError(
      str(describe(found, context_.store, against), " (seen by step ", steps_.steps(), ")"));
}

void RunObserver::check_finite(const StepStats& stats) {
  const auto skipped_total = static_cast<int64_t>(stats.values[Quantity::kSkippedSteps]);
  const int64_t skipped_now = skipped_.update(skipped_total, steps_.steps());
  // Both are reduced values, so all ranks continue here or none does.
  if (std::isfinite(stats.loss) && skipped_now == 0) return;
  check_losses();
  // Some gradients that are not finite are normal: that is how fp16 finds its scale. Many in a row
  // mean that no smaller scale helps. A short run may end before that many; without a finite loss
  // its end is no result either.
  const int64_t skipped = skipped_.in_a_row();
  const bool ends_without_loss =
      steps_.steps() == context_.batches.total_steps && skipped > 0 && !std::isfinite(stats.loss);
  if (skipped >= kMostSkippedInARow || ends_without_loss) {
    throw NumericsError(str("the gradient was not finite in the last ", skipped, " steps (loss ",
                            stats.loss, " at step ", steps_.steps(),
                            "): use a smaller --lr, a warm-up (--schedule.warmup_steps) or ",
                            against_overflow(context_.precision, context_.device.type(),
                                             context_.device_facts.capability)));
  }
}

void RunObserver::check_run_folder() const {
  if (context_.config.run.name.empty()) return;
  dist::agree_on_rank0(context_.host, [&] {
    if (context_.check_run_folder) context_.check_run_folder();
  });
}

void RunObserver::say_what_was_compared() const {
  const data::LoaderStats stats = steps_.loader().stats();
  if (context_.host.rank() != 0 || stats.not_compared == 0) return;
  const int64_t percent = 100 * stats.compared / (stats.compared + stats.not_compared);
  log::info(str("about ", percent, " % of the samples of epoch ", context_.verified_epoch + 1,
                " were compared with their checksums, in 1 % of the readers' time; --data.verify "
                "true compares all, and ",
                "so does `dtrain inspect --verify`"));
}

}  // namespace dtrain::train

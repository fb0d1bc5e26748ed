// What a run's measurements of itself cost: the time of exactly the calls that a step makes for
// them, without the step.
//   measure_overhead [--json FILE]
// A row is one kind of call: how often a step makes it, and its median, least and greatest time
// over rounds of many repetitions that follow each other. Their sum may be 0.5 % of a step of 5 ms:
// the last line says whether that is met, and the exit code is 1 if it is not. The step: one
// micro-batch of 32 samples on the CPU, 8 buckets of gradients, a logging step every 10 steps (the
// default), 16 other threads in the process, whose times are read at each logging step, free memory
// every 10 seconds, and a verdict on 2 ranks and 500 steps every minute. Loader threads measure
// each sample on their own time; their row is part of the sum as if the step waited for it.

#include <ATen/Parallel.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/spread.h"
#include "data/loader/stage_clock.h"
#include "diagnose/verdict.h"
#include "dist/lone_communicator.h"
#include "measure/resource_meter.h"
#include "measure/run_measurements.h"
#include "text/strings.h"
#include "text/text_table.h"
#include "train/phase_tracker.h"

namespace {

using namespace dtrain;
using measure::Phase;
using measure::Quantity;

constexpr double kStepSeconds = 5e-3, kMostShare = 0.005;
constexpr int kSamples = 32, kBuckets = 8, kLogEvery = 10, kOtherThreads = 16, kRounds = 15;

struct Row {
  std::string name;
  double per_step;  // calls
  Spread seconds;   // of one call
  double cost() const { return per_step * seconds.median; }
};

// Median over rounds of the mean of `repetitions` calls.
Row measure(std::string name, double per_step, int repetitions, const std::function<void()>& call) {
  std::vector<double> rounds;
  for (int round = 0; round <= kRounds; ++round) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < repetitions; ++i) call();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began;
    if (round > 0)
      rounds.push_back(passed.count() / repetitions);  // the first one warms the caches
  }
  return {std::move(name), per_step, spread_of(std::move(rounds))};
}

// As Trainer::step() announces them.
void phases_of_a_step(train::PhaseTracker& tracker) {
  tracker.begin_step();
  for (const Phase phase : {Phase::kDataWait, Phase::kForward, Phase::kBackward,
                            Phase::kAllReduceWait, Phase::kOptimizer})
    tracker.enter(phase);
  tracker.leave();
}

diagnose::RunEvidence evidence() {
  diagnose::RunEvidence run;
  run.hosts.push_back({.name = "host",
                       .values = {{Quantity::kHostCores, 2}, {Quantity::kHostSteal, 0}},
                       .others_cpu = 0});
  for (int rank = 0; rank < 2; ++rank) {
    diagnose::RankEvidence one;
    for (int i = 0; i < 500; ++i) {
      measure::StepTimes step;
      for (size_t phase = 0; phase < step.phases.size(); ++phase)
        step.phases[phase] = 1e-3 + 1e-6 * ((i * 7 + rank) % 13);
      step.wall = step.in_phases();
      one.steps.push_back(step);
    }
    one.values = {{Quantity::kCores, 1},
                  {Quantity::kCpu, 4e-3},
                  {Quantity::kComputeCpu, 3e-3},
                  {Quantity::kRunDelay, 1e-4},
                  {Quantity::kThrottled, 0}};
    run.ranks.push_back(one);
  }
  return run;
}

std::vector<Row> measure_all() {
  std::vector<Row> rows;
  {
    std::atomic<const char*> seen = nullptr;
    train::PhaseTracker tracker(at::kCPU, [&seen](const char* phase, int64_t) { seen = phase; });
    rows.push_back(
        measure("phases and wall time of a step", 1, 2000, [&] { phases_of_a_step(tracker); }));
  }
  {
    dist::BackwardTimes times;
    train::StepSums sums;
    rows.push_back(measure("backward to its buckets", 1, 2000, [&] {
      times.begin(at::kCPU);
      for (size_t bucket = 0; bucket < kBuckets; ++bucket) times.ready(at::kCPU, bucket, kBuckets);
      sums.note(times);
      sums.end_step();
    }));
  }
  {
    data::ReaderCounters counters;
    rows.push_back(measure("stages of a sample (loader threads)", kSamples, 5000, [&] {
      data::StageClock clock(counters, /*few=*/true, /*track=*/nullptr, {0, 0, 0});
      counters.add_sample(1000);
      clock.has_read();
      clock.has_decoded();
      clock.has_augmented();
    }));
  }
  {
    std::vector<std::jthread> others;
    for (int i = 0; i < kOtherThreads; ++i) {
      others.emplace_back([](const std::stop_token& stop) {
        while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      });
    }
    measure::ResourceMeter meter(2);
    // Free memory is part of the first sample alone, and so of the round that is left out.
    rows.push_back(measure("cores, memory, host (logging steps)", 1.0 / kLogEvery, 20,
                           [&] { meter.sample({}); }));
    rows.push_back(measure("free memory (every 10 s)", kStepSeconds / 10, 20,
                           [] { os::read_usable_memory(); }));
  }
  {
    const auto host = dist::make_lone_communicator();
    measure::RunMeasurements measurements(*host);
    const std::vector<measure::StepTimes> steps(kLogEvery);
    rows.push_back(measure("gather and keep (logging steps)", 1.0 / kLogEvery, 50,
                           [&] { measurements.gather(steps, {.seconds = 1}); }));
  }
  {
    const diagnose::RunEvidence run = evidence();
    rows.push_back(
        measure("verdict (each minute)", kStepSeconds / 60, 3, [&] { diagnose::judge(run); }));
  }
  return rows;
}

std::string json_of(const std::vector<Row>& rows, double total) {
  std::string json =
      str("{\"step_seconds\": ", kStepSeconds, ", \"total_seconds\": ", total,
          ", \"share\": ", total / kStepSeconds, ", \"most_share\": ", kMostShare, ", \"rows\": [");
  for (const Row& row : rows) {
    json += str(&row == &rows.front() ? "" : ", ", "{\"name\": \"", row.name,
                "\", \"calls_per_step\": ", row.per_step,
                ", \"seconds\": {\"median\": ", row.seconds.median, ", \"min\": ", row.seconds.low,
                ", \"max\": ", row.seconds.high, "}}");
  }
  return json + "]}\n";
}

// Returns whether the bar is met.
bool bench(const std::vector<std::string>& words) {
  if (!words.empty() && (words.size() != 2 || words[0] != "--json"))
    throw UsageError("usage: measure_overhead [--json FILE]");
  const std::vector<Row> rows = measure_all();
  std::vector<TextRow> table;
  double total = 0;
  const auto microseconds = [](double seconds) { return fixed(1e6 * seconds, 3); };
  for (const Row& row : rows) {
    total += row.cost();
    table.push_back({row.name, fixed(row.per_step, row.per_step < 0.01 ? 6 : 1),
                     microseconds(row.seconds.median), microseconds(row.seconds.low),
                     microseconds(row.seconds.high), microseconds(row.cost()),
                     fixed(100 * row.cost() / kStepSeconds, 4)});
  }
  table.push_back(
      {"all", "", "", "", "", microseconds(total), fixed(100 * total / kStepSeconds, 4)});
  std::fputs(text_table({"", "calls", "us", "min", "max", "us per step", "% of 5 ms"}, table,
                        {Align::kLeft})
                 .c_str(),
             stdout);
  const bool met = total <= kMostShare * kStepSeconds;
  std::printf("bar: at most %s %% of a step: %s\n", fixed(100 * kMostShare, 1).c_str(),
              met ? "met" : "missed");
  if (!words.empty()) std::ofstream(words[1]) << json_of(rows, total);
  return met;
}

}  // namespace

int main(int count, char** arguments) try {
  at::set_num_threads(1);
  return bench({arguments + 1, arguments + count}) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

// Table 2 of diagnosis.py: the verdict on recorded steps, with a GPU whose sensors are made, for
// faults that this machine cannot have. Each fault is planted at strengths around 1.5, 3, 9 % and
// more, with other noise for each seed, and judged as a run's steps are. The gain that counts as
// measured is the ratio of the times of the run with the fault and the same run without it.
//
// usage: recorded_faults [SEEDS [FIRST_SEED]]   (100 1): prints one JSON object per fault, and one
// for healthy runs

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "diagnose/made_faults.h"
#include "diagnose/verdict.h"

namespace dtrain::diagnose {
namespace {

struct Count {
  int runs = 0, silent = 0, named = 0, rank = 0, setting = 0;
};

struct Row {
  Count full, edge, weak;  // at 9 % or more, 3 %, 1.5 %
  std::vector<double>
      gain_errors;  // |predicted - measured| / measured, for measured gains of 3 to 60 %
};

void judge_one(const MadeFault& fault, double strength, uint64_t seed, Count& count, Row& row) {
  const Planted planted = fault.plant(strength);
  RunEvidence run = evidence_of(planted.slow, seed);
  if (planted.measure) planted.measure(run);
  const double gain =
      seconds_of(play(planted.slow, seed)) / seconds_of(play(planted.repaired, seed)) - 1;
  const Verdict verdict = judge(run);
  ++count.runs;
  if (verdict.findings.empty()) ++count.silent;
  if (verdict.findings.empty() || verdict.findings[0].cause != fault.cause) return;
  const Finding& found = verdict.findings[0];
  ++count.named;
  if (found.rank == fault.rank) ++count.rank;
  if (found.setting.rfind(fault.setting, 0) == 0) ++count.setting;
  if (found.gain && gain >= 0.03 && gain <= 0.6)
    row.gain_errors.push_back(std::abs(found.gain->ratio - gain) / gain);
}

double median(std::vector<double> values) {
  if (values.empty()) return -1;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void print(const char* name, const Count& count) {
  std::printf(
      ", \"%s\": {\"runs\": %d, \"silent\": %d, \"named\": %d, \"rank\": %d, \"setting\": %d}",
      name, count.runs, count.silent, count.named, count.rank, count.setting);
}

void print_fault(const MadeFault& fault, uint64_t first, uint64_t seeds) {
  Row row;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    Random random(seed);
    std::uniform_real_distribution<double> strength(0.09, 0.5);
    judge_one(fault, strength(random), seed, row.full, row);
    if (!fault.has_gain) continue;  // a limit has one strength
    judge_one(fault, 0.03, seed, row.edge, row);
    judge_one(fault, 0.015, seed, row.weak, row);
  }
  std::printf("{\"fault\": \"%s\", \"cause\": \"%s\"", fault.name,
              std::string(name_of(fault.cause)).c_str());
  print("full", row.full);
  print("edge", row.edge);
  print("weak", row.weak);
  std::printf(", \"gain_error\": %.4f}\n", median(row.gain_errors));
}

// Runs of one to four ranks, with and without a GPU, and with more noise than most machines have.
void print_healthy(uint64_t first, uint64_t seeds) {
  int alarms = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const MadeRun made{.ranks = 1 + seed % 4, .noise = 0.01 + 0.01 * static_cast<double>(seed % 5)};
    RunEvidence run = evidence_of(made, seed);
    if (seed / 4 % 2 == 0) set_healthy_gpu(run);
    if (!judge(run).findings.empty()) ++alarms;
  }
  std::printf("{\"fault\": \"healthy\", \"runs\": %d, \"alarms\": %d}\n", static_cast<int>(seeds),
              alarms);
}

}  // namespace
}  // namespace dtrain::diagnose

int main(int argc, char** argv) {
  const auto number = [&](int i, uint64_t missing) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : missing;
  };
  const uint64_t seeds = number(1, 100), first = number(2, 1);
  if (argc > 3 || seeds == 0) {
    std::fputs("usage: recorded_faults [SEEDS [FIRST_SEED]]\n", stderr);
    return 64;
  }
  for (const auto& fault : dtrain::diagnose::recorded_faults())
    dtrain::diagnose::print_fault(fault, first, seeds);
  dtrain::diagnose::print_healthy(first, 3 * seeds);
  return 0;
}

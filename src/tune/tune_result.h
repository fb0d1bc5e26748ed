#pragma once

// What `dtrain tune` has tried and found: the value that a stage gets from the stage before, and
// returns with what it found itself.

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/spread.h"
#include "text/named_enum.h"
#include "tune/largest_batch.h"
#include "tune/rate_range.h"
#include "tune/settings.h"
#include "tune/tuned_run.h"

namespace dtrain::tune {

enum class Stage { kMemory, kNetwork, kBatch, kLoader, kResult, kRate };
constexpr auto names_of(Stage) {
  return names("memory", "network", "batch", "loader", "result", "rate");
}

// One line of what was tried. NaN: not measured.
struct TrialRow {
  Stage stage = Stage::kMemory;
  TunedSettings settings = {};
  // All ranks together, accumulated as in the run.
  double samples_per_second = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;  // timed
  // The rank that needs most.
  double memory_bytes = std::numeric_limits<double>::quiet_NaN();
  bool chosen = false;  // whether its stage chose it
  std::string note = {};
};

struct RangeTest {
  std::vector<double> rates = {}, losses = {};
  std::optional<RateSuggestion> suggestion = {};
  double given = 0;  // optimizer.lr
};

// What the process of a trial needed at the largest batch that fits.
struct TrialMemory {
  double process_bytes = 0;
  double batch_bytes = 0;  // a batch that is read ahead
};

// What the last trial that measured a rate took beside its measurement.
struct TrialOverhead {
  double seconds = 1;
  int64_t batch_size = 0;  // its micro-batch; 0: no rate was measured
};

struct TuneState {
  TunedSettings settings = {};  // so far
  double rate = 0;              // samples/s, by the last choice; 0: none was measured
  LargestBatch largest = {};    // with the found precision, format and checkpointing
  LargestBatch largest_as_given = {};
  TrialMemory memory = {};
  TrialOverhead overhead = {};
  bool given_fits = true;
  // Where the search for the largest batch began, on a GPU: "starts from an estimate for h100: ..."
  std::string start = {};
  std::string card = {};            // a name of catalog/gpus.h, if a rank may use all of its memory
  std::vector<TrialRow> rows = {};  // appended while the stages run
  std::vector<std::string> left_out = {};                  // what was not tried, and why
  std::optional<Spread> given_rate = {}, found_rate = {};  // samples/s, at the end
  std::optional<RangeTest> range_test = {};

  void add(const std::vector<TrialRow>& more) { rows.insert(rows.end(), more.begin(), more.end()); }
};

struct TuneResult {
  TunedRun run = {};
  TuneState found = {};
  bool interrupted = false;
  double seconds = 0;

  int64_t found_global_batch() const {
    return run.batches.global_batch_of(found.settings.batch_size);
  }
};

}  // namespace dtrain::tune

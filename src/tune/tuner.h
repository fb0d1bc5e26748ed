#pragma once

// `dtrain tune`: tries settings of a run and keeps those that train most samples per second. In
// this order: the largest batch that fits into memory (in processes of their own), precision ×
// channels_last × checkpointing, the batch at the knee of the rate and with it the precision and
// format again, reader threads × read-ahead, and at the end the given settings and the found ones
// beside each other. Nothing is trained that anybody keeps. Where two choices are as good, the one
// that takes less is kept; of networks, the given one.
//
// The global batch stays as it is: other micro-batches accumulate to it. Rates of trials are those
// of one micro-step, from which that of the optimizer step is computed; the last comparison makes
// whole steps where the time suffices for so many.

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "core/parallel.h"
#include "core/spread.h"
#include "job/process_context.h"
#include "tune/largest_batch.h"
#include "tune/rate_range.h"
#include "tune/settings.h"

namespace dtrain::tune {

struct TuneOptions {
  double seconds = 3;              // of the longest measurement of one candidate
  double minutes = 10;             // about how long it may take
  int64_t memory_budget = 0;       // bytes of a rank; 0: its share of what is there
  bool free_global_batch = false;  // the global batch may change with the batch
  bool range_test = false;         // of the learning rate
};

enum class Stage { kMemory, kNetwork, kBatch, kLoader, kResult, kRate };
constexpr auto names_of(Stage) {
  return names("memory", "network", "batch", "loader", "result", "rate");
}

// One line of what was tried. NaN: not measured.
struct Row {
  Stage stage = Stage::kMemory;
  Settings settings = {};
  double samples_per_second =
      std::numeric_limits<double>::quiet_NaN();  // of all ranks, accumulated as in the run
  double seconds = 0;                            // that were timed
  double memory_bytes = std::numeric_limits<double>::quiet_NaN();  // of the rank that needs most
  bool chosen = false;                                             // in its stage
  std::string note = {};
};

struct RangeTest {
  std::vector<double> rates = {}, losses = {};
  std::optional<RateSuggestion> suggestion = {};
  double given = 0;  // optimizer.lr
};

struct TuneResult {
  config::Config config;  // resolved, with the given settings
  std::string device;
  int ranks = 1;
  int64_t global_batch = 0, samples = 0;
  double budget_bytes = 0;  // of a rank
  Settings given, found;
  std::string start =
      {};  // of the search for the largest batch, on a GPU: "starts from an estimate for h100: ..."
  std::string card = {};       // of catalog/gpus.h, if a rank may use all of its memory
  LargestBatch largest = {};   // with the found precision, format and checkpointing
  std::vector<Row> rows = {};  // in their order
  std::optional<Spread> given_rate = {}, found_rate = {};  // samples/s, at the end
  bool given_fits = true;
  std::optional<RangeTest> range_test = {};
  std::vector<std::string> left_out = {};  // what was not tried, and why
  bool interrupted = false;
  double seconds = 0;

  bool keeps_global_batch =
      true;  // false: it may change with the batch, but not where the batch is as given

  // How a run with this batch size makes an optimizer step. Its share of the samples is cut into
  // equal micro-batches, which may be smaller than the batch size: 64 samples with a batch size of
  // 48 are 32 and 32.
  bool keeps_global_batch_with(int64_t batch_size) const {
    return keeps_global_batch || batch_size == given.batch_size;
  }
  int64_t share() const;  // samples of a step on the rank that has most, as given
  int64_t accumulate_of(int64_t batch_size) const;   // micro-steps
  int64_t micro_batch_of(int64_t batch_size) const;  // samples of the largest of them
  int64_t step_samples_of(int64_t batch_size) const;
  int64_t found_global_batch() const {
    return keeps_global_batch_with(found.batch_size) ? global_batch : found.batch_size * ranks;
  }
};

// `stop`: set by a signal; then the result has what was found so far. DeviceError if not even one
// sample fits into memory, which names what is needed. Errors of the configuration and the data are
// those of a training. Collective; every rank gets the same result.
TuneResult tune(job::ProcessContext&, const config::Loaded&, const TuneOptions&,
                const std::atomic<bool>& stop, const ReportProgress&);

}  // namespace dtrain::tune

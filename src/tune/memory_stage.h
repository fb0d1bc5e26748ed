#pragma once

// The stage of `dtrain tune` that finds the largest batch. Collective.

#include <cstdint>
#include <string>

#include "job/preset.h"
#include "tune/largest_batch.h"
#include "tune/trials.h"
#include "tune/tune_result.h"

namespace dtrain::tune {

// For the given settings; where not even one sample fits with them, for others that need less.
// DeviceError if nothing fits, and for a batch size that a flag sets and that does not fit.
TuneState find_largest_batch(const Trials&);

// The batch with which the search begins on a GPU: the one that was measured on such a card, or a
// part of it if a rank may use only a part of the memory; else an estimate from that memory, but
// not less than what is given. Pure.
struct SearchStart {
  int64_t batch = 1;
  // "a measurement on h100", "an estimate for h100"; "": the batch is what is given
  std::string source;
};
SearchStart search_start(const job::Card&, const config::Config&, const TunedSettings& given,
                         int64_t budget_bytes);

// The last trial of a search in which nothing fits. Error if it ended for lack of time before it
// knew that. Pure.
const BatchTrial& last_trial(const LargestBatch&);

}  // namespace dtrain::tune

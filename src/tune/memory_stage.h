#pragma once

// The stage of `dtrain tune` that finds the largest batch. Every batch size is tried by a process
// on each device of the job (memory_trial.h), and all ranks go on with the worst
// answer. Collective.

#include <cstdint>
#include <string>

#include "job/preset.h"
#include "tune/largest_batch.h"
#include "tune/session.h"

namespace dtrain::tune {

// For the given settings; where not even one sample fits with them, for others that need less. Sets
// the largest batch and the found settings of the result. DeviceError if nothing fits, and for a
// batch size that a flag sets and that does not fit.
void find_largest_batch(Session&);

// The batch with which the search begins on a GPU: the one that was measured on such a card, or a
// part of it if a rank may use only a part of the memory; else an estimate from that memory, but
// not less than what is given. Pure.
struct SearchStart {
  int64_t batch = 1;
  std::string
      source;  // "a measurement on h100", "an estimate for h100"; "": the batch is what is given
};
SearchStart search_start(const job::Card&, const config::Config&, const Settings& given,
                         int64_t budget_bytes);

// The search for other settings, from `start` on, for about so many seconds, or until one batch
// fits or none is left.
LargestBatch search_memory(Session&, const Settings&, int64_t start, double seconds);

// The same for another network than the one of result.largest, from its batch on. Where a flag sets
// the batch size, that one alone is tried: its batch then is that or 0.
LargestBatch search_memory_again(Session&, const Settings&, double seconds);

// Whether the batch of these settings fits, by one trial; false as well if it could not end. The
// memory that the session knows of the largest batch stays.
bool fits_in_memory(Session&, const Settings&, double seconds);

// Of a search in which nothing fits. Error if it ended for lack of time before it knew that. Pure.
const BatchTrial& last_trial(const LargestBatch&);

}  // namespace dtrain::tune

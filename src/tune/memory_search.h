#pragma once

// Searches of the largest batch that fits with some settings. A process on each device of the job
// tries a batch size (memory_trial.h), and all ranks go on with the worst answer. Collective.

#include <cstdint>
#include <vector>

#include "tune/largest_batch.h"
#include "tune/trials.h"
#include "tune/tune_result.h"

namespace dtrain::tune {

inline constexpr double kShortestTrial = 30;  // seconds: a process needs some only to start

struct MemorySearch {
  LargestBatch largest = {};
  TrialMemory memory = {};
  std::vector<TrialRow> rows = {};
};
void add(TuneState&, MemorySearch);  // its rows, and its largest batch in place of the one before

// From `start` on, for about `seconds`, or until one batch fits or none is left.
MemorySearch search_memory(const Trials&, const TunedSettings&, int64_t start, double seconds);

// The same for settings with another network than that of `largest`, from its batch on. Where a
// flag sets the batch size, that one alone is tried: the result is that or 0.
MemorySearch search_memory_again(const Trials&, const TunedSettings&, const LargestBatch& largest,
                                 double seconds);

// Tries the batch of these settings alone. The result is that, or 0 if it does not fit or the trial
// could not end.
MemorySearch try_memory_of(const Trials&, const TunedSettings&, double seconds);

}  // namespace dtrain::tune

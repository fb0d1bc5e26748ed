#pragma once

// Which values of a tuned key are worth a trial. Pure.

#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "config/choices.h"

namespace dtrain::tune {

// The rate that loading alone has with a number of reader threads.
struct LoadingSpeed {
  int threads = 0;
  double samples_per_second = 0;
};

// What the candidates of all keys depend on; each search sets what its keys ask for.
struct Space {
  std::vector<config::AmpMode> amps = {};  // precisions()
  bool memory_is_short = false;            // a larger batch does not fit
  int64_t checkpointed_batch = 1;  // the micro-batch with checkpointing, if there was none before
  int64_t share_of_global_batch = 0;  // samples of a rank; 0: any number
  int64_t largest_batch = 1;          // that fits
  std::vector<LoadingSpeed> speeds = {};
  double needed = 0;  // samples per second that the network takes
  double most_ahead = std::numeric_limits<double>::infinity();  // batches that memory has room for
};

// The precisions to compare on a device, with the given one: the fastest first. fp16 only where
// there is no bf16, which is as fast and needs no loss scaling.
std::vector<config::AmpMode> precisions(config::AmpMode given, at::DeviceType, int capability);

// Samples of a micro-step, the most first, at most `most`, by halves. With a global batch, of which
// every rank has a share: that share in equal micro-steps; 0: any. `given` is among them unless it
// is too large, in place of the one that makes the same micro-steps.
std::vector<int64_t> batch_candidates(int64_t share_of_global_batch, int64_t most, int64_t given);

// Reader threads: those that keep up with `needed` samples per second, the fewest first, at most
// three; the two fastest if none does. `given` is always among them.
std::vector<int64_t> worker_candidates(std::vector<LoadingSpeed> speeds, double needed,
                                       int64_t given);

}  // namespace dtrain::tune

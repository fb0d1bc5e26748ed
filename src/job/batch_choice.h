#pragma once

// Which of train.batch_size, train.accumulate and train.global_batch decides how many samples an
// optimizer step has, and what the banner says of it. Pure.

#include <cstdint>
#include <string>

#include "config/load.h"

namespace dtrain::job {

struct BatchChoice {
  // Where a global batch holds, accumulate is 0: it follows from the number of ranks
  config::Train train;
  std::string decided_by;  // for the banner
  std::string notice;      // for the log: a given accumulate that is not used; "": none
};

// `train` is of the resolved configuration. A resumed one has the checkpoint's global batch, which
// stays, whatever accumulate is given. ConfigError if the three numbers of a new run contradict
// each other; it names their places.
BatchChoice choose_batch(const config::Train& train, const config::Loaded&, int64_t ranks,
                         bool resumed);

// Where a config sets the learning rate for another global batch than the run has: what linear
// scaling would make of it. The rate itself never changes. "": the config's rate is for this global
// batch, or does not say.
std::string rate_advice(const config::Loaded&, double rate, int64_t global_batch);

}  // namespace dtrain::job

#pragma once

// How a run loads its training data: the one place that says so, for the trainer and for whoever
// measures the loader alone. Pure.

#include <torch/types.h>

#include "config/config.h"
#include "data/loader/loader.h"
#include "train/batch_arithmetic.h"

namespace dtrain::train {

// `threads`: reader threads of this rank; `device`: where the batches arrive.
data::LoaderOptions loader_options(const config::Config&, const BatchArithmetic&, int threads,
                                   at::Device device);

// What data.verify means for a pass over samples. `first`: they are read for the first time.
data::Verify verify_of(const config::Data&, bool first);

}  // namespace dtrain::train

#pragma once

// train.overfit_batches: can the network learn a few batches by heart? If not, data, loss or network have a bug.

#include <cstdint>

#include "data/order/splits.h"
#include "data/store.h"

namespace dtrain::train {

// `samples` of the training split (all of it, if it has no more), drawn by seed, to train on and to validate on; no
// test split. Pure.
data::Splits overfit_splits(const data::Splits&, int64_t samples, uint64_t seed);

}  // namespace dtrain::train

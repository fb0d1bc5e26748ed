#include "train/overfit.h"

#include <algorithm>

#include "data/order/shard.h"
#include "data/order/splits.h"

namespace dtrain::train {

data::Splits overfit_splits(const data::Splits& all, int64_t samples, uint64_t seed) {
  const auto count = static_cast<int64_t>(all.train.size());
  data::Splits few;
  for (int64_t i = 0; i < std::min(samples, count); ++i) {
    few.train.push_back(all.train[static_cast<size_t>(data::permuted(i, count, seed))]);
  }
  few.val = few.train;
  return few;
}

}  // namespace dtrain::train

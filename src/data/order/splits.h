#pragma once

// Which samples of a data set are trained on, validated on and tested on.

#include <cstdint>
#include <string>
#include <vector>

#include "data/store.h"

namespace dtrain::data {

// What a run uses. Without a training split: all samples that are in no other one. Without a validation split:
// round(share x groups) of the training split's groups, at least one and not all (none if share is 0 or there is one
// group only), chosen by key, so that no group is on both sides. Ids keep their order in the file's splits.
struct Splits {
  std::vector<int64_t> train, val, test;
};
Splits splits(const Store&, double val_share, uint64_t seed);
uint64_t checksum(const Splits&);  // equal for equal ids in equal order and of equal use

}  // namespace dtrain::data

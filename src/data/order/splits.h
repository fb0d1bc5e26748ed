#pragma once

// Divides the samples of a data set into training, validation and test.

#include <cstdint>
#include <vector>

#include "data/store.h"

namespace dtrain::data {

// The splits that a run uses. If the file has no training split, it is all samples that are in no
// other split. If the file has no validation split, it is val_share of the training split's groups,
// chosen by `seed`: rounded, at least one group and not all of them; none if val_share is 0 or
// there is only one group. Whole groups are moved, so none is in both splits. Ids keep the order of
// the file's splits. If these groups hold all samples of a class, one of its groups stays in the
// training split. Where that would leave no group to validate on, it moves too, and the class is in
// `untrained_classes` then.
//
// If train_share is below 1, training uses only that fraction of its remaining groups, also chosen
// by `seed`: rounded, at least one group. Validation and test are the same for every train_share,
// and the groups of a smaller one are among those of a larger one, so that runs can be compared. A
// group is added for each class that has none among them.
struct Splits {
  std::vector<int64_t> train, val, test;
  // Had samples for training, which all are in val now; sorted
  std::vector<int64_t> untrained_classes = {};
};
Splits splits(const Store&, double val_share, uint64_t seed, double train_share = 1);
uint64_t checksum(const Splits&);  // depends on the ids of each split and on their order

}  // namespace dtrain::data

#pragma once

// What tasks on images, or on rows, ask of their samples alike.

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "data/batch.h"
#include "data/sample_spec.h"
#include "data/store.h"
#include "layers/random_context.h"
#include "tasks/facts.h"

namespace dtrain::tasks {

// Images of model.image_size, augmented by the keys augment.*
data::SampleSpec image_samples(const config::Config&);
data::SampleSpec row_samples(const config::Config&);

// How images are scaled and normalized: the keys image_size, mean and std.
Metadata image_metadata(const data::SampleSpec&);

// The sample ids of a batch on its device.
at::Tensor ids_of(const data::Batch&);
// What the draws of a batch are keyed by: the current RandomContext, which the trainer has set up
// for the batch; outside of a RandomScope one of this seed and of the batch's epoch.
layers::RandomContext draws_of(const data::Batch&, uint64_t seed);

// DataError if the file says that its targets have other names or another unit. A file need not
// say it.
void check_targets(const data::Store&, const catalog::Numbers&);
// The schema of samples of this task. DataError if the file holds samples of another one.
const data::Schema& schema_of(const data::Store&, std::string_view task);
// SampleSpec::class_numbers for a file whose classes are some of those that the network knows, in
// any order; empty if they are the same. DataError if the network does not know one of them.
std::vector<int64_t> class_numbers(const data::Store&, const std::vector<std::string>& known);

}  // namespace dtrain::tasks

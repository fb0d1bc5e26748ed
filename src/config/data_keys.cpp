// What is read, and how it is changed on the way.

#include "config/keys.h"
#include "core/strings.h"

namespace dtrain::config {
namespace {

std::string data_sets_in_words() {
  std::vector<std::string> names = catalog::trainable_data_sets();
  const std::string last = names.back();
  names.pop_back();
  return join(names, ", ") + " or " + last;
}

}  // namespace

std::vector<Option> data_keys(Data& data) {
  return {
      {.path = "data.file",
       .alias = "dataset",
       .target = &data.file,
       .text = str("dtrain HDF5 file; empty: a generated set of the task. As --dataset also ", data_sets_in_words(),
                   ": data/NAME.h5")},
      {.path = "data.workers",
       .alias = "workers",
       .target = &data.workers,
       .text = "reader threads per rank; 0: from the cores of the rank",
       .range = between(0, 1024)},
      {.path = "data.prefetch",
       .target = &data.prefetch,
       .text = "batches read ahead",
       .unit = "micro-batches",
       .range = between(1, 1024)},
      {.path = "data.val_share",
       .target = &data.val_share,
       .text = "share of the training split to validate on, by group, where the file has no validation split",
       .range = below(0, 1),
       .fixed = true},
      {.path = "data.verify", .target = &data.verify, .text = "check every sample's checksum while reading"},
      {.path = "data.on_bad_sample",
       .target = &data.on_bad_sample,
       .text = "a sample that cannot be read: stop with its name, or leave it out and go on"},
      {.path = "data.length_window",
       .target = &data.length_window,
       .text = "samples of unequal length: batches of like length, sorted within so many; 0: not sorted",
       .unit = "global batches",
       .range = between(0, 1 << 20),
       .fixed = true},
  };
}

std::vector<Option> augment_keys(Augment& augment) {
  return {
      {.path = "augment.hflip", .target = &augment.hflip, .text = "mirror with probability 1/2 (negates yaw and roll)"},
      {.path = "augment.crop_scale",
       .target = &augment.crop_scale,
       .text = "random resized crop: smallest share of the side; 1: none",
       .range = up_to(0, 1)},
      {.path = "augment.crop_ratio",
       .target = &augment.crop_ratio,
       .text = "random resized crop: aspect drawn from [1/x, x]; 1: square",
       .range = between(1, 10)},
      {.path = "augment.brightness",
       .target = &augment.brightness,
       .text = "factor drawn from [1 - x, 1 + x]",
       .range = between(0, 1)},
      {.path = "augment.contrast",
       .target = &augment.contrast,
       .text = "factor drawn from [1 - x, 1 + x]",
       .range = between(0, 1)},
      {.path = "augment.saturation",
       .target = &augment.saturation,
       .text = "factor drawn from [1 - x, 1 + x]",
       .range = between(0, 1)},
      {.path = "augment.hue",
       .target = &augment.hue,
       .text = "turn of the hue circle drawn from [-x, x]",
       .unit = "turns",
       .range = between(0, 0.5)},
      {.path = "augment.noise",
       .target = &augment.noise,
       .text = "sequence, encoder phase: standard deviation of what is added",
       .range = between(0, 1e6)},
      {.path = "augment.mask_share",
       .target = &augment.mask_share,
       .text = "sequence, encoder phase: share of the rows that are hidden",
       .range = inside(0, 1)},
      {.path = "augment.mask_span",
       .target = &augment.mask_span,
       .text = "sequence, encoder phase: consecutive rows hidden together",
       .unit = "rows",
       .range = between(1, 1 << 20)},
  };
}

}  // namespace dtrain::config

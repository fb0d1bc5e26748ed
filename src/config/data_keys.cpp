// The data and its augmentation.

#include "config/keys.h"
#include "text/strings.h"

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
       .also = "data",
       .target = &data.file,
       .text = str("dtrain HDF5 file; empty: generated data for the task. --dataset also takes ",
                   data_sets_in_words(), ": data/NAME.h5")},
      {.path = "data.workers",
       .alias = "workers",
       .target = &data.workers,
       .text = "reader threads per rank; 0: from the cores of the rank",
       .range = between(0, 1024)},
      {.path = "data.prefetch",
       .target = &data.prefetch,
       .text = "batches to read ahead",
       .unit = "micro-batches",
       .range = between(1, 1024)},
      {.path = "data.val_share",
       .target = &data.val_share,
       .text = "fraction of the training split to validate on, by group, if the file has no "
               "validation split; each "
               "class keeps a group for training",
       .range = below(0, 1),
       .fixed = true},
      {.path = "data.share",
       .target = &data.share,
       .text = "train on this fraction of the training split, by group, chosen by train.seed, and "
               "on one group at "
               "least of each class",
       .range = up_to(0, 1),
       .fixed = true},
      {.path = "data.verify",
       .target = &data.verify,
       .text = "compare samples with their checksums while reading; first_epoch: those of the "
               "first epoch, in at most "
               "1 % of the readers' time, and none with on_bad_sample skip"},
      {.path = "data.on_bad_sample",
       .target = &data.on_bad_sample,
       .text = "for a sample that cannot be read: stop and name it, or skip it and continue"},
      {.path = "data.length_window",
       .target = &data.length_window,
       .text =
           "samples of different lengths: sort by length within this many batches; 0: not sorted",
       .unit = "global batches",
       .range = between(0, 1 << 20),
       .fixed = true,
       .scope = kRows},
      {.path = "data.length_classes",
       .target = &data.length_classes,
       .text = "samples of different lengths: pad batches to one of this many lengths; 0: to their "
               "longest sample",
       .range = between(0, 64),
       .scope = kRows},
  };
}

std::vector<Option> augment_keys(Augment& augment) {
  return {
      {.path = "augment.hflip",
       .target = &augment.hflip,
       .text = "mirror with probability 1/2 (negates yaw and roll)",
       .scope = kMirrored},
      {.path = "augment.crop_scale",
       .target = &augment.crop_scale,
       .text = "random resized crop: smallest fraction of the side; 1: no crop",
       .range = up_to(0, 1),
       .scope = kPictures},
      {.path = "augment.crop_ratio",
       .target = &augment.crop_ratio,
       .text = "random resized crop: aspect ratio drawn from [1/x, x]; 1: square",
       .range = between(1, 10),
       .scope = kPictures},
      {.path = "augment.brightness",
       .target = &augment.brightness,
       .text = "factor drawn from [1 - x, 1 + x]",
       .range = between(0, 1),
       .scope = kPictures},
      {.path = "augment.contrast",
       .target = &augment.contrast,
       .text = "factor drawn from [1 - x, 1 + x]",
       .range = between(0, 1),
       .scope = kPictures},
      {.path = "augment.saturation",
       .target = &augment.saturation,
       .text = "factor drawn from [1 - x, 1 + x]",
       .range = between(0, 1),
       .scope = kPictures},
      {.path = "augment.hue",
       .target = &augment.hue,
       .text = "shift of the hue drawn from [-x, x]",
       .unit = "turns",
       .range = between(0, 0.5),
       .scope = kPictures},
      {.path = "augment.noise",
       .target = &augment.noise,
       .text = "encoder phase: standard deviation of the added noise",
       .range = between(0, 1e6),
       .scope = kTaskSequence},
      {.path = "augment.mask_share",
       .target = &augment.mask_share,
       .text = "encoder phase: fraction of rows that are masked",
       .range = inside(0, 1),
       .scope = kTaskSequence},
      {.path = "augment.mask_span",
       .target = &augment.mask_span,
       .text = "encoder phase: number of consecutive rows that are masked together",
       .unit = "rows",
       .range = between(1, 1 << 20),
       .scope = kTaskSequence},
  };
}

}  // namespace dtrain::config

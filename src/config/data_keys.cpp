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
      Option("data.file", &data.file,
             str("dtrain HDF5 file; empty: generated data for the task. --dataset also takes ",
                 data_sets_in_words(), ": data/NAME.h5"),
             {.alias = "dataset", .also = "data"}),
      Option("data.workers", &data.workers,
             "reader threads per rank; 0: from the cores of the rank",
             {.alias = "workers", .range = between(0, 1024)}),
      Option("data.prefetch", &data.prefetch, "batches to read ahead",
             {.unit = "micro-batches", .range = between(1, 1024)}),
      Option("data.val_share", &data.val_share,
             "fraction of the training split to validate on, by group, if the file has no "
             "validation split; each class keeps a group for training",
             {.range = below(0, 1), .fixed = true}),
      Option("data.share", &data.share,
             "train on this fraction of the training split, by group, chosen by train.seed, and on "
             "one group at least of each class",
             {.range = up_to(0, 1), .fixed = true}),
      Option("data.verify", &data.verify,
             "compare samples with their checksums while reading; first_epoch: those of the first "
             "epoch, in at most 1 % of the readers' time, and none with on_bad_sample skip"),
      Option("data.on_bad_sample", &data.on_bad_sample,
             "for a sample that cannot be read: stop and name it, or skip it and continue"),
      Option(
          "data.length_window", &data.length_window,
          "samples of different lengths: sort by length within this many batches; 0: not sorted",
          {.unit = "global batches", .range = between(0, 1 << 20), .fixed = true, .scope = kRows}),
      Option("data.length_classes", &data.length_classes,
             "samples of different lengths: pad batches to one of this many lengths; 0: to their "
             "longest sample",
             {.range = between(0, 64), .scope = kRows}),
  };
}

std::vector<Option> augment_keys(Augment& augment) {
  return {
      Option("augment.hflip", &augment.hflip, "mirror with probability 1/2 (negates yaw and roll)",
             {.scope = kMirrored}),
      Option("augment.crop_scale", &augment.crop_scale,
             "random resized crop: smallest fraction of the side; 1: no crop",
             {.range = up_to(0, 1), .scope = kPictures}),
      Option("augment.crop_ratio", &augment.crop_ratio,
             "random resized crop: aspect ratio drawn from [1/x, x]; 1: square",
             {.range = between(1, 10), .scope = kPictures}),
      Option("augment.brightness", &augment.brightness, "factor drawn from [1 - x, 1 + x]",
             {.range = between(0, 1), .scope = kPictures}),
      Option("augment.contrast", &augment.contrast, "factor drawn from [1 - x, 1 + x]",
             {.range = between(0, 1), .scope = kPictures}),
      Option("augment.saturation", &augment.saturation, "factor drawn from [1 - x, 1 + x]",
             {.range = between(0, 1), .scope = kPictures}),
      Option("augment.hue", &augment.hue, "shift of the hue drawn from [-x, x]",
             {.unit = "turns", .range = between(0, 0.5), .scope = kPictures}),
      Option("augment.noise", &augment.noise,
             "encoder phase: standard deviation of the added noise",
             {.range = between(0, 1e6), .scope = kTaskSequence}),
      Option("augment.mask_share", &augment.mask_share,
             "encoder phase: fraction of rows that are masked",
             {.range = inside(0, 1), .scope = kTaskSequence}),
      Option("augment.mask_span", &augment.mask_span,
             "encoder phase: number of consecutive rows that are masked together",
             {.unit = "rows", .range = between(1, 1 << 20), .scope = kTaskSequence}),
  };
}

}  // namespace dtrain::config

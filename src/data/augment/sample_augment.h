#pragma once

// The random transform of one image: source rectangle, flip and color factors, drawn as a pure
// function of (seed, epoch, sample id). Color changes follow torchvision's ColorJitter, after
// resampling and always in the order brightness, contrast, saturation, hue. Plain values that CPU
// and GPU share.

#include <cstdint>

#include "core/host_device.h"
#include "data/sample_spec.h"

namespace dtrain::data {

struct ImageShape {
  int64_t height = 0, width = 0;  // pixels; RGB, row by row
  DTRAIN_HD int64_t bytes() const { return height * width * 3; }
};

// Copied to the GPU as bytes, next to the image. Factors of 1 and a hue of 0 do not change any bit
// of a pixel.
struct SampleAugment {
  float y = 0, x = 0, height = 0, width = 0;  // source rectangle in pixels, scaled to the output
  float brightness = 1, contrast = 1, saturation = 1;
  float hue = 0;     // rotation of the hue circle in turns, -0.5 to 0.5
  int32_t flip = 0;  // 1: mirror left and right
};

// The centered square with `share` of the shorter side, in whole pixels: the crop for evaluation,
// and for training without random crops.
SampleAugment centre_crop(ImageShape, float share = 1);
// The side of a random crop is crop_scale to 1 times the shorter side. With crop_ratio r > 1, width
// / height is log-uniform in [1/r, r] at the same area; a crop that does not fit is made smaller.
// This differs from torchvision's RandomResizedCrop, whose scale is a share of the image's area.
SampleAugment draw(const SampleSpec&, uint64_t seed, int64_t epoch, int64_t sample_id, ImageShape);

struct Normalization {
  float mean[3], std[3];  // red, green, blue; for values in [0, 1]
};
Normalization normalization(const SampleSpec&);

}  // namespace dtrain::data

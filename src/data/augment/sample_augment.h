#pragma once

// What happens to one stored image on its way into the network: source rectangle, flip, color, normalization. The draws
// are a pure function of (seed, epoch, sample id). torchvision's definitions (ColorJitter), in the fixed order
// brightness, contrast, saturation, hue, after the resampling. Plain values, for the CPU and the GPU.

#include <cstdint>

#include "core/host_device.h"
#include "data/sample_spec.h"

namespace dtrain::data {

struct ImageShape {
  int64_t height = 0, width = 0;  // pixels; RGB, row by row
  DTRAIN_HD int64_t bytes() const { return height * width * 3; }
};

// Plain bytes: it travels to the GPU beside the image. Factors of 1 and a hue of 0 leave the pixels bit for bit.
struct SampleAugment {
  float y = 0, x = 0, height = 0, width = 0;  // source rectangle in pixels, scaled to the output
  float brightness = 1, contrast = 1, saturation = 1;
  float hue = 0;     // turn of the hue circle, -0.5 to 0.5
  int32_t flip = 0;  // 1: left and right change places
};

// The centred square of `share` of the shorter side, in whole pixels: evaluation, and training without random crops.
SampleAugment centre_crop(ImageShape, float share = 1);
// A random crop's side is crop_scale to 1 of the shorter side; with a ratio r, width / height is log-uniform in
// [1/r, r] at the same area, made smaller where it would not fit. torchvision's RandomResizedCrop, whose scale is of
// the area and of the whole image.
SampleAugment draw(const SampleSpec&, uint64_t seed, int64_t epoch, int64_t sample_id, ImageShape);

struct Normalization {
  float mean[3], std[3];  // of r, g, b in [0, 1]
};
Normalization normalization(const SampleSpec&);

}  // namespace dtrain::data

#pragma once

// What happens to a stored image on its way into the network: source rectangle, flip, colour, normalisation. The draws
// are a pure function of (seed, epoch, sample id); the arithmetic of a pixel is in augment_pixel.h, one body for CPU
// and GPU, so both give the same bits. torchvision's definitions (ColorJitter), in the fixed order brightness,
// contrast, saturation, hue, after the resampling. Resampling is bilinear without antialiasing: store images at about
// the size that the network wants (`dtrain convert` does), because shrinking one many times over would alias.

#include <cstdint>
#include <vector>

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

// The CPU's side. Holds tables and row buffers. Thread-safety: one thread at a time.
class Augmenter {
 public:
  Augmenter(const SampleSpec&, ImageShape);
  // image: uint8 [H, W, 3]; out: float32 [S, S, 3].
  void operator()(const uint8_t* image, const SampleAugment&, float* out);

 private:
  void scale_row(const uint8_t* row, float* planes) const;  // along x, into three planes of S
  const float* scaled(const uint8_t* image, int64_t y);  // that, of row y, kept while the next output row may need it
  void look_up(const uint8_t* image, const SampleAugment&, float* out) const;

  ImageShape shape_;
  int64_t side_;
  Normalization norm_;
  std::vector<float> table_;             // [256, 3]: the normalised value of each byte
  std::vector<int64_t> left_, right_;    // [S]: byte offsets of the two source pixels of each output column
  std::vector<float> column_weight_;     // [S]: of the right one
  std::vector<float> rows_[2], pixels_;  // [3, S] each
  int64_t row_of_[2] = {-1, -1};
};

}  // namespace dtrain::data

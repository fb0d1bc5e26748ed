#pragma once

// The augmentation on the CPU. The arithmetic of a pixel is in augment_pixel.h, one body for CPU and GPU, so that both
// give the same bits. Resampling is bilinear without antialiasing: store images at about the size that the network
// takes (`dtrain convert` does), because shrinking an image many times over would alias.

#include <cstdint>
#include <vector>

#include "data/augment/sample_augment.h"

namespace dtrain::data {

// Holds tables and row buffers. Thread-safety: one thread at a time.
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

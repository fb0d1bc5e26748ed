#pragma once

// Augmentation on the CPU. The arithmetic of a pixel is in augment_pixel.h, which CPU and GPU
// share, so that both give the same bits. Resampling is bilinear without antialiasing, so images
// should be stored at about the network's input size (as `dtrain convert` does): shrinking a much
// larger image would alias.

#include <cstdint>
#include <vector>

#include "data/augment/sample_augment.h"

namespace dtrain::data {

// Owns lookup tables and row buffers. Thread-safety: one thread at a time.
class Augmenter {
 public:
  Augmenter(const SampleSpec&, ImageShape);
  // Reads `image`, uint8 [H, W, 3], and writes `out`, float32 [S, S, 3].
  void operator()(const uint8_t* image, const SampleAugment&, float* out);

 private:
  // Resamples along x, into three planes of S values
  void scale_row(const uint8_t* row, float* planes) const;
  // The scaled source row y, from the cache if it is still there: neighboring output rows share
  // source rows.
  const float* scaled(const uint8_t* image, int64_t y);
  void look_up(const uint8_t* image, const SampleAugment&, float* out) const;

  ImageShape shape_;
  int64_t side_;
  Normalization norm_;
  std::vector<float> table_;  // [256, 3]: the normalized value of each byte
  // [S]: byte offsets of the two source pixels of each output column
  std::vector<int64_t> left_, right_;
  std::vector<float> column_weight_;     // [S]: weight of the right pixel
  std::vector<float> rows_[2], pixels_;  // [3, S] each
  int64_t row_of_[2] = {-1, -1};
};

}  // namespace dtrain::data

#pragma once

// What a task asks of the loader: the shape of a sample, how it is normalised and augmented. The loader knows no task.

#include <array>
#include <cstdint>
#include <vector>

namespace dtrain::data {

struct SampleSpec {
  int64_t image_size = 224;                           // output side in pixels; inputs are uint8 [S, S, 3] with S >= 1
  std::array<float, 3> mean{0.485f, 0.456f, 0.406f};  // of RGB in [0, 1]
  std::array<float, 3> std{0.229f, 0.224f, 0.225f};
  std::vector<float> target_flip_sign;  // factor of each target element under a horizontal flip
  bool hflip = false;
  float crop_scale = 1;  // smallest share of the side; 1: centre crop (or scaling) only
  float brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

}  // namespace dtrain::data

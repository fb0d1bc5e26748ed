#pragma once

// What a task asks of the loader: the shape of a sample, how it is normalised and augmented. The loader knows no task.

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace dtrain::data {

struct SampleSpec {
  // kImage: uint8 [H, W, 3]. kRows: float32, [F] or [T, F] or any number of rows [rows, F], padded to a batch.
  enum class Kind { kImage, kRows } kind = Kind::kImage;

  int64_t image_size = 224;                           // output side in pixels; inputs are uint8 [S, S, 3] with S >= 1
  std::array<float, 3> mean{0.485f, 0.456f, 0.406f};  // of RGB in [0, 1]
  std::array<float, 3> std{0.229f, 0.224f, 0.225f};
  // Factor of each float32 target element under a horizontal flip; empty: the targets stay (classes).
  std::vector<float> target_flip_sign;
  bool hflip = false;
  float crop_scale = 1;    // smallest share of the side; 1: centre crop (or scaling) only
  float crop_ratio = 1;    // random crop: width / height is between 1 / r and r; 1: square
  float centre_share = 1;  // without random crops: side of the centre crop / shorter side of the image
  float brightness = 0, contrast = 0, saturation = 0, hue = 0;

  // kRows: batches of like length, sorted within so many global batches; 0: not.
  int64_t length_window = 0;
  // kRows: a sample of more rows is a bad one; 0: any number.
  int64_t longest = 0;

  // What a target must be; a sample whose target is not, is a bad one (sample_defect.h).
  float target_limit = std::numeric_limits<float>::max();  // float32: finite, and no further from zero
  std::vector<std::string> target_names;                   // float32: of its elements, for messages
  int64_t classes = 0;                                     // int64: each one of [0, classes); 0: any number
  bool target_is_order = false;                            // int64: a permutation of the sample's rows
};

}  // namespace dtrain::data

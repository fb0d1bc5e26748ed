#pragma once

// What a task needs from the loader: the shape of a sample, and how it is normalized, augmented and
// checked. The loader itself knows no task.

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace dtrain::data {

struct SampleSpec {
  // kImage: uint8 [H, W, 3]. kRows: float32 [F], [T, F], or [rows, F] with any number of rows,
  // padded in a batch.
  enum class Kind { kImage, kRows } kind = Kind::kImage;

  int64_t image_size = 224;                           // S: side of the output in pixels, at least 1
  std::array<float, 3> mean{0.485f, 0.456f, 0.406f};  // RGB, for values in [0, 1]
  std::array<float, 3> std{0.229f, 0.224f, 0.225f};
  // Factor of each float32 target element under a horizontal flip. Empty: a flip does not change
  // the target (classes).
  std::vector<float> target_flip_sign;
  bool hflip = false;
  // Smallest side of a random crop, as a share of the shorter side; 1: no random crop
  float crop_scale = 1;
  float crop_ratio = 1;  // random crop: width / height is between 1 / r and r; 1: square
  // Without random crops: side of the center crop / shorter side of the image
  float centre_share = 1;
  float brightness = 0, contrast = 0, saturation = 0, hue = 0;

  // kRows: groups samples of similar length; sorts within this many global batches. 0: off.
  // See order/epoch_order.h.
  int64_t length_window = 0;
  // kRows: a sample with more rows is bad. 0: no limit.
  int64_t longest = 0;

  // What a valid target is. A sample with another target is bad (loader/sample_check.h).
  // float32: largest absolute value; NaN is never valid
  float target_limit = std::numeric_limits<float>::max();
  std::vector<std::string> target_names;  // float32: names of its elements, for messages
  int64_t classes = 0;                    // int64: each value is in [0, classes); 0: any value
  // int64: the network's number of each class of the file, whose values are in [0, size). Empty:
  // the same numbers.
  std::vector<int64_t> class_numbers{};
  bool target_is_order = false;  // int64: a permutation of the sample's rows
};

}  // namespace dtrain::data

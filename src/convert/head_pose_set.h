#pragma once

// The common part of the three published head-pose sets: pictures cropped to the head, with three
// angles as targets.

#include <cstddef>
#include <filesystem>
#include <vector>

#include "convert/head_pose.h"
#include "convert/raw_set.h"
#include "convert/stored_sample.h"
#include "formats/image.h"
#include "formats/mat_file.h"

namespace dtrain::convert {

struct LabeledImage {
  formats::Image image;  // size × size
  HeadPose pose;
};

// The stored form of a target: yaw, pitch, roll as float32
inline std::vector<std::byte> to_target(const HeadPose& pose) {
  return bytes_of(std::vector{static_cast<float>(pose.yaw), static_cast<float>(pose.pitch),
                              static_cast<float>(pose.roll)});
}

class HeadPoseSet : public RawSet {
 public:
  HeadPoseSet(const catalog::TaskEntry& task, int size) : RawSet(task), size_(size) {}
  const SampleList& samples() const override { return samples_; }
  data::Schema schema() const override { return schema_of(task_, size_); }
  Record read(size_t sample) const override {
    const LabeledImage labeled = read_picture(samples_[sample], size_);
    return {.input = bytes_of(labeled.image.rgb),
            .target = to_target(labeled.pose),
            .beyond_range = !within_range(labeled.pose)};
  }
  bool has_range() const override { return true; }

 protected:
  // The result's pose may be out of range, but is finite.
  virtual LabeledImage read_picture(const RawSample&, int size) const = 0;
  SampleList samples_;

 private:
  int size_;
};

// The head in a picture of 300W-LP or AFLW2000, or of BIWI, cropped and scaled to size × size as
// their converters do it: by the annotation beside the picture, of which the angles are not
// needed. DataError.
formats::Image landmark_head(const std::filesystem::path& picture, int size);
formats::Image biwi_head(const std::filesystem::path& picture, int size);

// The crop around landmarks, given as a matrix of 2 or 3 × N, or N × 2 or 3 with N > 3. First
// Hopenet's rectangle with k = 0.2: the landmarks' bounding box, extended by 0.6 k on both sides
// and below and by 2 k above. Then the square with its longer side and the same center, so that
// nothing is cut off or distorted. DataError if the landmarks cannot be those of a face in a
// picture of this size.
formats::Box landmark_box(const formats::Matrix& points, int picture_width, int picture_height);

}  // namespace dtrain::convert

#include "convert/head_pose_set.h"

#include <span>

namespace dtrain::convert {

std::vector<std::byte> to_target(const HeadPose& pose) {
  const float angles[] = {static_cast<float>(pose.yaw), static_cast<float>(pose.pitch),
                          static_cast<float>(pose.roll)};
  const auto bytes = std::as_bytes(std::span(angles));
  return {bytes.begin(), bytes.end()};
}

data::Schema HeadPoseSet::schema() const { return schema_of(task_, size_); }

Record HeadPoseSet::read(size_t sample) const {
  const LabeledImage labeled = read_picture(samples_[sample], size_);
  const auto pixels = std::as_bytes(std::span(labeled.image.rgb));
  return {.input = {pixels.begin(), pixels.end()},
          .target = to_target(labeled.pose),
          .beyond_range = !within_range(labeled.pose)};
}

}  // namespace dtrain::convert

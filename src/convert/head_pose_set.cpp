#include "convert/head_pose_set.h"

#include <span>

namespace dtrain::convert {

data::Schema head_pose_schema(int size) {
  return {.task = "headpose",
          .input = {data::Element::kUint8, {size, size, 3}},
          .target = {data::Element::kFloat32, {3}},
          .samples = 0,
          .checksum = 0};
}

data::Attributes head_pose_attributes() {
  return {{"target_names", "yaw,pitch,roll"}, {"target_unit", "degree"}};
}

std::vector<std::byte> to_target(const HeadPose& pose) {
  const float angles[] = {static_cast<float>(pose.yaw), static_cast<float>(pose.pitch),
                          static_cast<float>(pose.roll)};
  const auto bytes = std::as_bytes(std::span(angles));
  return {bytes.begin(), bytes.end()};
}

data::Schema HeadPoseSet::schema() const { return head_pose_schema(size_); }

data::Attributes HeadPoseSet::attributes() const { return head_pose_attributes(); }

Record HeadPoseSet::read(size_t sample) const {
  const LabeledImage labeled = read_picture(samples_[sample], size_);
  const auto pixels = std::as_bytes(std::span(labeled.image.rgb));
  return {.input = {pixels.begin(), pixels.end()},
          .target = to_target(labeled.pose),
          .beyond_range = !within_range(labeled.pose)};
}

}  // namespace dtrain::convert

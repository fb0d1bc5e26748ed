#include "convert/head_pose.h"

#include <cmath>
#include <numbers>

namespace dtrain::convert {
namespace {
constexpr double kDegree = std::numbers::pi / 180;
}

Vector3 operator*(const Matrix3& m, const Vector3& v) {
  Vector3 result{};
  for (int i = 0; i < 3; ++i) result[i] = m[i][0] * v[0] + m[i][1] * v[1] + m[i][2] * v[2];
  return result;
}

Matrix3 rotation(const HeadPose& pose) {
  const double sy = std::sin(pose.yaw * kDegree), cy = std::cos(pose.yaw * kDegree);
  const double sp = std::sin(pose.pitch * kDegree), cp = std::cos(pose.pitch * kDegree);
  const double sr = std::sin(pose.roll * kDegree), cr = std::cos(pose.roll * kDegree);
  return {{{cy * cr, -cy * sr, sy},
           {cp * sr - sp * sy * cr, cp * cr + sp * sy * sr, sp * cy},
           {-sp * sr - cp * sy * cr, -sp * cr + cp * sy * sr, cp * cy}}};
}

HeadPose head_pose(const Matrix3& r) {
  return {.yaw = std::atan2(r[0][2], std::hypot(r[1][2], r[2][2])) / kDegree,
          .pitch = std::atan2(r[1][2], r[2][2]) / kDegree,
          .roll = -std::atan2(r[0][1], r[0][0]) / kDegree};
}

HeadPose mirrored(const HeadPose& pose) {
  return {.yaw = -pose.yaw, .pitch = pose.pitch, .roll = -pose.roll};
}

bool within_range(const HeadPose& pose) {
  return std::abs(pose.yaw) <= kLargestAngle && std::abs(pose.pitch) <= kLargestAngle &&
         std::abs(pose.roll) <= kLargestAngle;
}

bool finite(const HeadPose& pose) {
  return std::isfinite(pose.yaw) && std::isfinite(pose.pitch) && std::isfinite(pose.roll);
}

}  // namespace dtrain::convert

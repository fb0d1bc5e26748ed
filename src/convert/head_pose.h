#pragma once

// One convention of angles for all head-pose data, in degrees and in the order yaw, pitch, roll.
//
// Axes of camera and head: x to the right of the picture, y down, z away from the viewer; a head at (0, 0, 0) looks
// into the camera, along -z. Positive yaw turns the nose to the left of the picture, positive pitch lifts it, positive
// roll turns the head clockwise as seen in the picture. As a rotation from head to camera: Rx(-pitch) · Ry(yaw) ·
// Rz(roll). This is what Hopenet's formulas take from BIWI's matrices, and also what 300W-LP's Pose_Para means (its
// axes are x right, y up, z towards the viewer). Mirroring the picture negates yaw and roll.

#include <array>

namespace dtrain::convert {

struct HeadPose {
  double yaw = 0, pitch = 0, roll = 0;  // degrees
};

using Vector3 = std::array<double, 3>;
using Matrix3 = std::array<Vector3, 3>;  // rows

Vector3 operator*(const Matrix3&, const Vector3&);

Matrix3 rotation(const HeadPose&);            // head to camera
HeadPose head_pose(const Matrix3& rotation);  // its inverse, for |yaw| < 90

HeadPose mirrored(const HeadPose&);

// The literature trains on angles within ±99° (66 bins of 3°) and leaves other samples out.
inline constexpr double kLargestAngle = 99;
bool within_range(const HeadPose&);
bool finite(const HeadPose&);

}  // namespace dtrain::convert

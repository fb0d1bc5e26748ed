#pragma once

// The convention of angles for all head-pose data: in degrees, in the order yaw, pitch, roll.
//
// Axes of camera and head: x to the right of the picture, y down, z away from the viewer. With
// angles (0, 0, 0) the head looks into the camera, along -z. Positive yaw turns the nose to the
// left of the picture, positive pitch raises it, and positive roll turns the head clockwise in the
// picture. The rotation from head to camera is Rx(-pitch) · Ry(yaw) · Rz(roll). Hopenet's formulas
// compute these angles from BIWI's matrices, and 300W-LP's Pose_Para has the same meaning (its axes
// are x right, y up, z toward the viewer). Mirroring the picture negates yaw and roll.

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

// The literature uses angles within ±99° (66 bins of 3°) and leaves out other samples.
inline constexpr double kLargestAngle = 99;
bool within_range(const HeadPose&);
bool finite(const HeadPose&);

}  // namespace dtrain::convert

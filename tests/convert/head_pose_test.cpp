#include "convert/head_pose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace dtrain::convert {
namespace {

constexpr double kDegree = std::numbers::pi / 180;

void expect_near(const HeadPose& a, const HeadPose& b, double tolerance = 1e-9) {
  EXPECT_NEAR(a.yaw, b.yaw, tolerance);
  EXPECT_NEAR(a.pitch, b.pitch, tolerance);
  EXPECT_NEAR(a.roll, b.roll, tolerance);
}

TEST(HeadPose, SignsAreAsTheHeaderSays) {
  const Vector3 nose{0, 0, -1}, ear{1, 0, 0};            // the ear on the right of the picture
  EXPECT_LT((rotation({.yaw = 30}) * nose)[0], -0.4);    // to the left
  EXPECT_LT((rotation({.pitch = 30}) * nose)[1], -0.4);  // up
  EXPECT_GT((rotation({.roll = 30}) * ear)[1], 0.4);     // clockwise: the right side goes down
}

TEST(HeadPose, HeadPoseInvertsRotation) {
  for (double yaw = -85; yaw <= 85; yaw += 34) {
    for (double pitch = -90; pitch <= 90; pitch += 36) {
      for (double roll = -120; roll <= 120; roll += 48) {
        const HeadPose pose{.yaw = yaw, .pitch = pitch, .roll = roll};
        expect_near(head_pose(rotation(pose)), pose);
      }
    }
  }
}

// Hopenet's formula for a BIWI matrix as published: transpose, then three arc tangents.
TEST(HeadPose, AgreesWithHopenetsFormulaForBiwi) {
  const HeadPose pose{.yaw = 31, .pitch = -17, .roll = 12};
  const Matrix3 stored = rotation(pose);
  double r[3][3];
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) r[i][j] = stored[j][i];
  }
  const double roll = -std::atan2(r[1][0], r[0][0]) / kDegree;
  const double yaw =
      -std::atan2(-r[2][0], std::sqrt(r[2][1] * r[2][1] + r[2][2] * r[2][2])) / kDegree;
  const double pitch = std::atan2(r[2][1], r[2][2]) / kDegree;
  expect_near({.yaw = yaw, .pitch = pitch, .roll = roll}, pose);
}

// 300W-LP's model: axes x right, y up, z toward the viewer, R = Rx(pitch) Ry(yaw) Rz(roll), each
// turning clockwise.
TEST(HeadPose, AgreesWithPosePara) {
  const HeadPose pose{.yaw = 31, .pitch = -17, .roll = 12};
  const double p = pose.pitch * kDegree, y = pose.yaw * kDegree, r = pose.roll * kDegree;
  const Matrix3 rx{{{1, 0, 0}, {0, std::cos(p), std::sin(p)}, {0, -std::sin(p), std::cos(p)}}};
  const Matrix3 ry{{{std::cos(y), 0, -std::sin(y)}, {0, 1, 0}, {std::sin(y), 0, std::cos(y)}}};
  const Matrix3 rz{{{std::cos(r), std::sin(r), 0}, {-std::sin(r), std::cos(r), 0}, {0, 0, 1}}};
  for (const Vector3& v : {Vector3{1, 0, 0}, Vector3{0, 1, 0}, Vector3{0, 0, 1}}) {
    const Vector3 theirs = rx * (ry * (rz * v));
    const Vector3 ours = rotation(pose) * Vector3{v[0], -v[1], -v[2]};
    EXPECT_NEAR(ours[0], theirs[0], 1e-12);
    EXPECT_NEAR(-ours[1], theirs[1], 1e-12);
    EXPECT_NEAR(-ours[2], theirs[2], 1e-12);
  }
}

TEST(HeadPose, MirroringTheSceneMirrorsThePose) {
  const HeadPose pose{.yaw = 40, .pitch = 20, .roll = -15};
  const Matrix3 r = rotation(pose), m = rotation(mirrored(pose));
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j)
      EXPECT_NEAR(m[i][j], r[i][j] * ((i == 0) != (j == 0) ? -1 : 1), 1e-12);
  }
}

TEST(HeadPose, RangeAndFiniteness) {
  EXPECT_TRUE(within_range({.yaw = 99, .pitch = -99, .roll = 0}));
  EXPECT_FALSE(within_range({.yaw = 0, .pitch = 99.01, .roll = 0}));
  EXPECT_FALSE(within_range({.yaw = 0, .pitch = 0, .roll = -120}));
  EXPECT_FALSE(finite({.yaw = std::nan(""), .pitch = 0, .roll = 0}));
  EXPECT_FALSE(finite({.yaw = 0, .pitch = INFINITY, .roll = 0}));
}

}  // namespace
}  // namespace dtrain::convert

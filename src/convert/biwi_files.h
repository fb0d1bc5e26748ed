#pragma once

// The two text files of the BIWI Kinect head-pose database. `rgb.cal`: camera matrix (3 rows), distortion (1 row,
// zeros), rotation (3 rows) and translation (1 row, mm) from the depth camera to the colour camera, picture size.
// `frame_NNNNN_pose.txt`: rotation of the head (3 rows), centre of the head in mm in the depth camera's frame (1 row).
// Errors: DataError with the reason.

#include <filesystem>
#include <string>

#include "convert/head_pose.h"
#include "formats/image.h"

namespace dtrain::convert {

struct BiwiCalibration {
  Matrix3 camera{};
  Matrix3 rotation{};
  Vector3 translation{};
  int width = 0, height = 0;
};

struct BiwiPose {
  Matrix3 rotation{};
  Vector3 centre{};  // mm
};

BiwiCalibration read_biwi_calibration(const std::filesystem::path& file);
BiwiPose read_biwi_pose(const std::filesystem::path& file);
std::string to_text(const BiwiCalibration&);
std::string to_text(const BiwiPose&);

// The square around the projected centre of the head whose side is kHeadBoxMm at the head's distance: the whole head
// with a margin, whatever the pose (heads measure about 230 mm from chin to crown).
inline constexpr double kHeadBoxMm = 280;
formats::Box head_box(const BiwiPose&, const BiwiCalibration&);

}  // namespace dtrain::convert

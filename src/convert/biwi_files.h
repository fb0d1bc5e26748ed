#pragma once

// The two text files of the BIWI Kinect head-pose database. `rgb.cal`: camera matrix (3 rows),
// distortion (1 row, zeros), rotation (3 rows) and translation (1 row, mm) from the depth camera to
// the color camera, image size. `frame_NNNNN_pose.txt`: rotation of the head (3 rows), center of
// the head in the depth camera's frame (1 row, mm). Errors: DataError with the reason.

#include <filesystem>
#include <string>

#include "convert/head_pose.h"
#include "formats/image.h"

namespace dtrain::convert {

struct BiwiCalibration {
  Matrix3 camera{};
  Matrix3 rotation{};
  Vector3 translation{};
  int width = 0, height = 0;  // picture size in pixels; 0: the file does not say
};

struct BiwiPose {
  Matrix3 rotation{};
  Vector3 center{};  // mm
};

BiwiCalibration read_biwi_calibration(const std::filesystem::path& file);
BiwiPose read_biwi_pose(const std::filesystem::path& file);
// Throws DataError if the calibration is for pictures of another size: the head would be at
// another place.
void check_picture_size(const BiwiCalibration&, int width, int height);
std::string to_text(const BiwiCalibration&);
std::string to_text(const BiwiPose&);

// The square around the projected center of the head, with side kHeadBoxMm at the head's distance.
// It contains the whole head with a margin in any pose: heads measure about 230 mm from chin
// to crown.
inline constexpr double kHeadBoxMm = 280;
formats::Box head_box(const BiwiPose&, const BiwiCalibration&);

}  // namespace dtrain::convert

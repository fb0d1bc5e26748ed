#include "convert/biwi_files.h"

#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "formats/read_file.h"
#include "text/number_text.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

// Reads all numbers of a text file. The published files differ in blank lines and trailing spaces,
// but not in order.
std::vector<double> numbers(const std::filesystem::path& file, size_t least) {
  std::ifstream in;
  if (std::filesystem::is_regular_file(file)) in.open(file);
  if (!in.is_open())
    throw DataError(str(file.filename().string(), " is missing or cannot be opened"));
  constexpr uint64_t kMostTextBytes = 65536;
  formats::check_file_bytes(std::filesystem::file_size(file), kMostTextBytes);
  std::vector<double> values;
  std::string word;
  while (in >> word) {
    const std::optional<double> value = parse_number<double>(
        word.starts_with('+') && !word.starts_with("+-") ? word.substr(1) : word);
    if (!value)
      throw DataError(
          str(file.filename().string(), " contains '", word, "' where a number should be"));
    if (!std::isfinite(*value)) throw DataError(str(file.filename().string(), " contains ", word));
    values.push_back(*value);
  }
  if (values.size() < least) {
    throw DataError(str(file.filename().string(), " contains ", values.size(),
                        " numbers, at least ", least, " expected"));
  }
  return values;
}

Matrix3 matrix_at(const std::vector<double>& values, size_t first) {
  Matrix3 m{};
  for (size_t i = 0; i < 9; ++i) m[i / 3][i % 3] = values[first + i];
  return m;
}

Vector3 vector_at(const std::vector<double>& values, size_t first) {
  return {values[first], values[first + 1], values[first + 2]};
}

void check_rotation(const Matrix3& r, const std::filesystem::path& file) {
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const double dot = r[i][0] * r[j][0] + r[i][1] * r[j][1] + r[i][2] * r[j][2];
      if (std::abs(dot - (i == j ? 1 : 0)) > 0.02) {
        throw DataError(str(file.filename().string(), ": its matrix is not a rotation (rows ", i,
                            " and ", j, ")"));
      }
    }
  }
}

std::ostream& operator<<(std::ostream& out, const Vector3& v) {
  return out << v[0] << ' ' << v[1] << ' ' << v[2];
}
std::ostream& operator<<(std::ostream& out, const Matrix3& m) {
  return out << m[0] << '\n' << m[1] << '\n' << m[2];
}

}  // namespace

BiwiCalibration read_biwi_calibration(const std::filesystem::path& file) {
  const std::vector<double> values = numbers(file, 9 + 4 + 9 + 3);
  BiwiCalibration calibration{.camera = matrix_at(values, 0),
                              .rotation = matrix_at(values, 13),
                              .translation = vector_at(values, 22)};
  if (values.size() >= 27) {
    constexpr double kMost = 1e6;
    if (!(values[25] >= 1 && values[26] >= 1 && values[25] <= kMost && values[26] <= kMost)) {
      throw DataError(str(file.filename().string(), ": pictures of ", values[25], " x ", values[26],
                          " pixels"));
    }
    calibration.width = static_cast<int>(values[25]);
    calibration.height = static_cast<int>(values[26]);
  }
  check_rotation(calibration.rotation, file);
  if (!(calibration.camera[0][0] > 0 && calibration.camera[1][1] > 0)) {
    throw DataError(str(file.filename().string(), ": the focal lengths are not positive"));
  }
  return calibration;
}

BiwiPose read_biwi_pose(const std::filesystem::path& file) {
  const std::vector<double> values = numbers(file, 12);
  const BiwiPose pose{.rotation = matrix_at(values, 0), .center = vector_at(values, 9)};
  check_rotation(pose.rotation, file);
  return pose;
}

void check_picture_size(const BiwiCalibration& c, int width, int height) {
  if (c.width == 0 || (c.width == width && c.height == height)) return;
  throw DataError(str("a picture of ", width, " x ", height, " pixels, but its rgb.cal is for ",
                      c.width, " x ", c.height, ": the head would be cropped at a wrong place"));
}

std::string to_text(const BiwiCalibration& c) {
  std::ostringstream out;
  out.precision(9);
  out << c.camera << "\n\n0 0 0 0\n\n"
      << c.rotation << "\n\n"
      << c.translation << "\n\n"
      << c.width << ' ' << c.height << '\n';
  return out.str();
}

std::string to_text(const BiwiPose& pose) {
  std::ostringstream out;
  out.precision(9);
  out << pose.rotation << "\n\n" << pose.center << '\n';
  return out.str();
}

formats::Box head_box(const BiwiPose& pose, const BiwiCalibration& c) {
  Vector3 center = c.rotation * pose.center;
  for (int i = 0; i < 3; ++i) center[i] += c.translation[i];
  // The sensor sees from half a meter to a few meters.
  if (center[2] < 100 || center[2] > 10'000) {
    throw DataError(
        str("the head's center is ", fixed(center[2], 1), " mm in front of the camera"));
  }
  const Vector3 projected = c.camera * center;
  const double x = projected[0] / projected[2], y = projected[1] / projected[2];
  const double half = c.camera[0][0] / center[2] * kHeadBoxMm / 2;
  return {.left = x - half, .top = y - half, .right = x + half, .bottom = y + half};
}

}  // namespace dtrain::convert

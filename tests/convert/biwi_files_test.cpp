#include "convert/biwi_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace dtrain::convert {
namespace {

// As published, including trailing spaces.
constexpr const char* kCalibration =
    "517.679 0 320 \n0 517.679 240.5 \n0 0 1 \n\n0 0 0 0 \n\n0.999947 0.00432361 0.00929419 \n"
    "-0.00446314 0.999877 0.0150443 \n-0.009228 -0.015085 0.999844 \n\n-24.0198 5.8896 -13.2308 "
    "\n\n640 480\n";
constexpr const char* kPose = "1 0 0 \n0 1 0 \n0 0 1 \n\n43.4019 -30.7038 906.864 \n";

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

TEST(BiwiFiles, ReadsThePublishedFormat) {
  const testing::TempDir folder;
  write_text(folder / "rgb.cal", kCalibration);
  write_text(folder / "pose.txt", kPose);
  const BiwiCalibration calibration = read_biwi_calibration(folder / "rgb.cal");
  EXPECT_DOUBLE_EQ(calibration.camera[1][2], 240.5);
  EXPECT_DOUBLE_EQ(calibration.rotation[0][1], 0.00432361);
  EXPECT_DOUBLE_EQ(calibration.translation[0], -24.0198);
  EXPECT_EQ(calibration.width, 640);
  const BiwiPose pose = read_biwi_pose(folder / "pose.txt");
  EXPECT_DOUBLE_EQ(pose.center[2], 906.864);

  // The expected values by hand: rotate, translate, divide by the depth.
  const double x = 0.999947 * 43.4019 + 0.00432361 * -30.7038 + 0.00929419 * 906.864 - 24.0198;
  const double z = -0.009228 * 43.4019 - 0.015085 * -30.7038 + 0.999844 * 906.864 - 13.2308;
  const formats::Box box = head_box(pose, calibration);
  EXPECT_NEAR((box.left + box.right) / 2, 517.679 * x / z + 320, 1e-9);
  EXPECT_NEAR(box.right - box.left, 517.679 / z * kHeadBoxMm, 1e-9);
  EXPECT_NEAR(box.bottom - box.top, box.right - box.left, 1e-9);
}

TEST(BiwiFiles, TextRoundTrip) {
  const testing::TempDir folder;
  const HeadPose angles{.yaw = 33, .pitch = -21, .roll = 7};
  write_text(folder / "pose.txt",
             to_text(BiwiPose{.rotation = rotation(angles), .center = {1, -2, 900}}));
  const HeadPose back = head_pose(read_biwi_pose(folder / "pose.txt").rotation);
  EXPECT_NEAR(back.yaw, 33, 1e-6);
  EXPECT_NEAR(back.pitch, -21, 1e-6);
  EXPECT_NEAR(back.roll, 7, 1e-6);
}

TEST(BiwiFiles, NamesTheDamage) {
  const testing::TempDir folder;
  const auto expect = [&](const std::string& text, std::initializer_list<std::string> parts) {
    write_text(folder / "p.txt", text);
    testing::expect_error<DataError>([&] { read_biwi_pose(folder / "p.txt"); }, parts);
  };
  testing::expect_error<DataError>([&] { read_biwi_pose(folder / "absent_pose.txt"); },
                                   {"absent_pose.txt", "missing"});
  expect("1 0 0 0 1 0 0 0 1", {"p.txt", "9 numbers", "12 expected"});
  expect("1 0 0 0 1 0 0 0 1 x 2 3", {"'x'"});
  expect("1 0 0 0 1 0 0 0 nan 1 2 3", {"nan"});
  expect("1 0 0 0 1 0 0 0 +-1 1 2 3", {"'+-1'"});
  expect("1 0 0 0 2 0 0 0 1 1 2 900", {"not a rotation"});
  write_text(folder / "rgb.cal", "517 0 320");
  testing::expect_error<DataError>([&] { read_biwi_calibration(folder / "rgb.cal"); },
                                   {"rgb.cal", "3 numbers"});
  const BiwiPose behind{.rotation = rotation({}), .center = {0, 0, -500}};
  const BiwiPose far{.rotation = rotation({}), .center = {0, 0, 900'000}};  // micrometers, say
  write_text(folder / "rgb.cal", kCalibration);
  testing::expect_error<DataError>(
      [&] { head_box(behind, read_biwi_calibration(folder / "rgb.cal")); },
      {"in front of the camera"});
  testing::expect_error<DataError>(
      [&] { head_box(far, read_biwi_calibration(folder / "rgb.cal")); },
      {"mm in front of the camera"});
}

TEST(BiwiFiles, TheCalibrationIsForPicturesOfOneSize) {
  const testing::TempDir folder;
  const std::string text = kCalibration;
  write_text(folder / "rgb.cal", text);
  const BiwiCalibration calibration = read_biwi_calibration(folder / "rgb.cal");
  check_picture_size(calibration, 640, 480);
  testing::expect_error<DataError>([&] { check_picture_size(calibration, 320, 240); },
                                   {"a picture of 320 x 240 pixels", "rgb.cal is for 640 x 480"});
  const std::string without_size = text.substr(0, text.rfind("640"));
  write_text(folder / "rgb.cal", without_size);
  check_picture_size(read_biwi_calibration(folder / "rgb.cal"), 320, 240);
  write_text(folder / "rgb.cal", without_size + "0 1e300");
  testing::expect_error<DataError>([&] { read_biwi_calibration(folder / "rgb.cal"); },
                                   {"pictures of 0 x 1e+300"});
}

}  // namespace
}  // namespace dtrain::convert

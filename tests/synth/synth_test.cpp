#include "synth/synth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numbers>

#include "core/error.h"
#include "data/hdf5/file_store.h"
#include "data/store.h"
#include "formats/mat_file.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "synth/scene.h"

namespace dtrain::synth {
namespace {

namespace fs = std::filesystem;

formats::Image draw(const convert::HeadPose& pose) {
  // Black, with a lamp at the camera, so that only the head is asymmetric
  formats::Image image(96, 96);
  render(head_model({}), pose, {.x = 48, .y = 48, .scale = 34}, {}, image);
  return image;
}

double mean_difference(const formats::Image& a, const formats::Image& b) {
  double sum = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) sum += std::abs(a.rgb[i] - b.rgb[i]);
  return sum / static_cast<double>(a.rgb.size());
}

TEST(Renderer, AMirroredPictureShowsTheMirroredPose) {
  for (const convert::HeadPose& pose :
       {convert::HeadPose{}, convert::HeadPose{35, 10, -20}, convert::HeadPose{-60, -30, 25},
        convert::HeadPose{10, 45, 40}}) {
    EXPECT_LT(mean_difference(mirrored(draw(pose)), draw(mirrored(pose))), 0.02);
    if (pose.yaw != 0) {
      EXPECT_GT(mean_difference(draw(pose), draw(mirrored(pose))), 3);
    }
  }
}

TEST(Renderer, EachAngleChangesThePicture) {
  const formats::Image straight = draw({});
  EXPECT_GT(mean_difference(straight, draw({.yaw = 10})), 1);
  EXPECT_GT(mean_difference(straight, draw({.pitch = 10})), 1);
  EXPECT_GT(mean_difference(straight, draw({.roll = 10})), 1);
}

// The offset of a green nose from the middle of the picture, as the mean position of the
// green pixels.
TEST(Renderer, TheNosePointsWhereTheAnglesSay) {
  const auto nose = [](const convert::HeadPose& pose) {
    const Ellipsoid head{.center = {0, 0, 0}, .radii = {0.8, 1, 0.9}, .color = {0.5f, 0, 0}};
    const Ellipsoid tip{.center = {0, 0, -1}, .radii = {0.15, 0.15, 0.15}, .color = {0, 1, 0}};
    formats::Image image(96, 96);
    render({head, tip}, pose, {.x = 48, .y = 48, .scale = 34}, {}, image);
    double x = 0, y = 0, n = 0;
    for (int v = 0; v < 96; ++v) {
      for (int u = 0; u < 96; ++u) {
        if (image.at(u, v)[1] < 100) continue;
        x += u + 0.5, y += v + 0.5, ++n;
      }
    }
    return convert::Vector3{x / n - 48, y / n - 48, n};
  };
  const double s = 34 * std::sin(20 * std::numbers::pi / 180);
  EXPECT_NEAR(nose({})[0], 0, 0.2);
  EXPECT_NEAR(nose({.yaw = 20})[0], -s, 0.6);  // left
  EXPECT_NEAR(nose({.yaw = 20})[1], 0, 0.2);
  EXPECT_NEAR(nose({.pitch = 20})[1], -s, 0.6);  // up
  EXPECT_NEAR(nose({.pitch = 20})[0], 0, 0.2);
}

TEST(Renderer, LandmarksAreOnTheHead) {
  const convert::HeadPose pose{25, -10, 15};
  const ScenePlacement place{.x = 48, .y = 48, .scale = 34};
  const formats::Matrix points = landmarks(pose, place);
  ASSERT_EQ(points.columns, 68u);
  const formats::Image image = draw(pose);
  int on = 0;
  for (size_t i = 0; i < 68; ++i) {
    const uint8_t* pixel = image.at(static_cast<int>(points(0, i)), static_cast<int>(points(1, i)));
    on += pixel[0] + pixel[1] + pixel[2] > 0;
  }
  EXPECT_GE(on, 60);                        // the contour may miss the edge by a pixel
  EXPECT_LT(points(1, 30), points(1, 57));  // the nose is above the mouth
  EXPECT_LT(points(0, 36), points(0, 45));  // outer corners of the eyes, from left to right
}

TEST(Scene, AnglesHaveTheirTriangularDistribution) {
  double mean[3] = {}, deviation[3] = {}, largest[3] = {};
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    const convert::HeadPose pose = draw_pose(1, i);
    const double angles[] = {pose.yaw, pose.pitch, pose.roll};
    for (int k = 0; k < 3; ++k) {
      mean[k] += angles[k] / kCount;
      deviation[k] += std::abs(angles[k]) / kCount;
      largest[k] = std::max(largest[k], std::abs(angles[k]));
    }
  }
  const double limits[] = {75, 50, 40};
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(mean[k], 0, 0.01 * limits[k]);
    EXPECT_NEAR(deviation[k], limits[k] / 3, 0.01 * limits[k]);
    EXPECT_LE(largest[k], limits[k]);
    EXPECT_GT(largest[k], 0.9 * limits[k]);
  }
}

std::string bytes_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Synth, Hdf5IsTheSameForAnyNumberOfThreads) {
  const testing::TempDir folder;
  const SynthSummary summary =
      synth("headpose", {.out = folder / "a.h5", .samples = 50, .size = 32, .threads = 1});
  synth("headpose", {.out = folder / "b.h5", .samples = 50, .size = 32, .threads = 3});
  EXPECT_EQ(bytes_in(folder / "a.h5"), bytes_in(folder / "b.h5"));
  synth("headpose", {.out = folder / "c.h5", .samples = 50, .size = 32, .seed = 2});
  EXPECT_NE(bytes_in(folder / "a.h5"), bytes_in(folder / "c.h5"));

  const auto store = data::open_file(folder / "a.h5");
  store->verify();
  EXPECT_EQ(store->schema().samples, 50);
  EXPECT_EQ(summary.groups, 13);
  EXPECT_EQ(summary.splits.at("train") + summary.splits.at("test"), 50);
  EXPECT_GT(summary.splits.at("test"), 0);
  for (const int64_t id : store->origin().split("test")) {
    for (const int64_t other : store->origin().split("train"))
      EXPECT_NE(store->origin().group(id), store->origin().group(other));
  }
  std::vector<std::byte> input(32 * 32 * 3);
  store->read_input(17, input);
  const std::vector<float> target = data::read_target_as<float>(*store, 17);
  const SynthSample sample = synth_sample(1, 17, 32);
  EXPECT_EQ(input, std::vector<std::byte>(
                       reinterpret_cast<const std::byte*>(sample.image.rgb.data()),
                       reinterpret_cast<const std::byte*>(sample.image.rgb.data()) + 3072));
  EXPECT_FLOAT_EQ(target[0], static_cast<float>(sample.pose.yaw));
  EXPECT_FLOAT_EQ(target[2], static_cast<float>(sample.pose.roll));
}

TEST(Synth, LpLayoutEqualsThePublishedOne) {
  const testing::TempDir folder;
  synth("headpose", {.layout = "300wlp", .out = folder / "lp", .samples = 34, .size = 64});
  for (const char* name : {"AFW", "AFW_Flip", "HELEN", "IBUG", "LFPW"})
    EXPECT_TRUE(fs::is_directory(folder / "lp" / name));
  const fs::path one = folder / "lp/HELEN/HELEN_000001_1_2",
                 twin = folder / "lp/HELEN_Flip/HELEN_000001_1_2";
  EXPECT_EQ(formats::read_image(one.string() + ".jpg").width, 64);
  const formats::Matrices a = formats::read_mat(one.string() + ".mat", {"Pose_Para", "pt2d"});
  const formats::Matrices b = formats::read_mat(twin.string() + ".mat", {"Pose_Para", "pt2d"});
  ASSERT_EQ(a.at("Pose_Para").columns, 7u);
  ASSERT_EQ(a.at("pt2d").columns, 68u);
  EXPECT_EQ(a.at("Pose_Para")(0, 0), b.at("Pose_Para")(0, 0));   // pitch
  EXPECT_EQ(a.at("Pose_Para")(0, 1), -b.at("Pose_Para")(0, 1));  // yaw
  EXPECT_EQ(a.at("Pose_Para")(0, 2), -b.at("Pose_Para")(0, 2));  // roll
  EXPECT_NEAR(a.at("pt2d")(0, 30), 64 - b.at("pt2d")(0, 30), 1e-4);
  EXPECT_LT(mean_difference(mirrored(formats::read_image(one.string() + ".jpg")),
                            formats::read_image(twin.string() + ".jpg")),
            2);
}

TEST(Synth, RefusesInvalidOptions) {
  const testing::TempDir folder;
  const auto refused = [&](const SynthOptions& options, const char* part) {
    testing::expect_error<UsageError>([&] { synth("headpose", options); }, {part});
  };
  refused({.layout = "aflw", .out = folder / "x"}, "unknown layout");
  refused({.out = folder / "x", .samples = 0}, "--samples");
  refused({.out = folder / "x", .size = 3}, "--size");
  std::ofstream(folder / "there.h5") << "mine";
  testing::expect_error<OutputError>(
      [&] { synth("headpose", {.out = folder / "there.h5", .samples = 4}); },
      {"exists", "--force"});
  EXPECT_EQ(bytes_in(folder / "there.h5"), "mine");
  testing::expect_error<OutputError>(
      [&] { synth("headpose", {.layout = "biwi", .out = folder.path(), .samples = 4}); },
      {"not an empty folder"});
  synth("headpose", {.out = folder / "there.h5", .samples = 4, .size = 16, .force = true});
  EXPECT_EQ(data::open_file(folder / "there.h5")->schema().samples, 4);
}

}  // namespace
}  // namespace dtrain::synth

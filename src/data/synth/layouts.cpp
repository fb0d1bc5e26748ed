#include "data/synth/layouts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numbers>

#include "core/error.h"
#include "core/file_system.h"
#include "core/hash.h"
#include "core/strings.h"
#include "data/convert/biwi_files.h"
#include "data/convert/mat_file.h"
#include "data/convert/raw_set.h"
#include "data/synth/scene.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kViews = 4;

std::string digits(int64_t value, int width) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*lld", width, static_cast<long long>(value));
  return text;
}

// Not fsynced: thousands of small files that a second run makes again.
void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  real_file_system().create_folders(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw OutputError(str("cannot write ", path.string(), ": ", std::strerror(errno)));
}

Matrix row(std::vector<double> values) {
  const size_t count = values.size();
  return {.rows = 1, .columns = count, .values = std::move(values)};
}

// The camera of the published files for 640 × 480, scaled to other heights.
BiwiCalibration biwi_calibration(int height) {
  const double s = height / 480.0;
  return {.camera = {{{517.679 * s, 0, 320 * s}, {0, 517.679 * s, 240.5 * s}, {0, 0, 1}}},
          .rotation = rotation({}),
          .translation = {-24.0198, 5.8896, -13.2308},
          .width = height * 4 / 3,
          .height = height};
}

}  // namespace

std::string LpName::path() const {
  return str(source, flip ? "_Flip/" : "/", source, "_", digits(photo, 6), "_1_", view);
}

LpName lp_name(int64_t index) {
  static constexpr std::array<const char*, 4> kSources{"AFW", "HELEN", "IBUG", "LFPW"};
  const int64_t picture = index / 2, photo = picture / kViews;
  return {.source = kSources[static_cast<size_t>(photo % 4)],
          .flip = index % 2 == 1,
          .photo = photo,
          .view = picture % kViews};
}

void write_300wlp(const fs::path& folder, uint64_t seed, int64_t index, int size) {
  const LpName name = lp_name(index);
  const int64_t picture = index / 2;
  HeadPose pose = draw_pose(seed, picture);
  Placement place = draw_placement(seed, picture, size, size, 0.19, 0.1);
  Image image = draw_background(seed, name.photo, size, size);
  render(head_model(draw_person(seed, name.photo)), pose, place, draw_light(seed, name.photo), image);
  add_noise(seed, picture, image);
  if (name.flip) {
    image = mirrored(image);
    pose = mirrored(pose);
    place.x = size - place.x;
  }
  constexpr double kRadian = std::numbers::pi / 180;
  const fs::path base = folder / name.path();
  write_file(base.string() + ".jpg", encode_jpeg(image));
  // Translation and scale as in the original: pixels from the lower left corner, and pixels per micrometre of the
  // model.
  write_mat(
      base.string() + ".mat",
      {{"Pose_Para", row({pose.pitch * kRadian, pose.yaw * kRadian, pose.roll * kRadian, place.x, size - place.y, 0,
                          place.scale / (1000 * kMillimetresPerUnit)})},
       {"pt2d", landmarks(pose, place)},
       {"roi", row({place.x - place.scale, place.y - place.scale, place.x + place.scale, place.y + place.scale})}});
}

int64_t biwi_sequences(int64_t samples) { return std::clamp<int64_t>(samples / 10, 1, 24); }

void write_biwi_calibration(const fs::path& folder, int64_t sequence, int height) {
  const std::string text = to_text(biwi_calibration(height));
  write_file(folder / digits(sequence + 1, 2) / "rgb.cal", std::as_bytes(std::span(text)));
}

void write_biwi(const fs::path& folder, uint64_t seed, int64_t index, int64_t sequences, int height) {
  const std::string sequence = digits(index % sequences + 1, 2);
  const BiwiCalibration calibration = biwi_calibration(height);
  const int width = calibration.width;
  const HeadPose pose = draw_pose(seed, index);

  // A place in front of the camera, then its picture through the calibration.
  const double distance = 850 + 300 * draw_placement(seed, index, 1, 1, 1, 1).y;
  const Placement drawn = draw_placement(seed, index, width, height, 1, 0.15);
  const double focal = calibration.camera[0][0];
  const BiwiPose truth{
      .rotation = rotation(pose),
      .centre = {(drawn.x - width / 2.0) / focal * distance, (drawn.y - height / 2.0) / focal * distance, distance}};
  const Box box = head_box(truth, calibration);
  const Placement place{.x = (box.left + box.right) / 2,
                        .y = (box.top + box.bottom) / 2,
                        .scale = (box.right - box.left) / kHeadBoxMm * kMillimetresPerUnit};

  const std::string person = biwi_person(sequence);
  const auto person_key = static_cast<int64_t>(xxh64(std::as_bytes(std::span(person))) >> 1);
  const int64_t room = index % sequences;
  Image image = draw_background(seed, room, width, height);
  render(head_model(draw_person(seed, person_key)), pose, place, draw_light(seed, room), image);
  add_noise(seed, index, image);

  const fs::path base = folder / sequence / ("frame_" + digits(index / sequences + 3, 5));
  const std::string text = to_text(truth);
  write_file(base.string() + "_rgb.png", encode_png(image));
  write_file(base.string() + "_pose.txt", std::as_bytes(std::span(text)));
}

}  // namespace dtrain::data

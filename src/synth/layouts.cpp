#include "synth/layouts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numbers>

#include "convert/biwi_files.h"
#include "convert/pointer_file.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/parallel.h"
#include "formats/mat_file.h"
#include "formats/npz.h"
#include "os/file_system.h"
#include "synth/scene.h"
#include "text/strings.h"

namespace dtrain::synth {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kViews = 4;

// Does not fsync: there are thousands of small files, and a second run can make them again.
void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  real_file_system().create_folders(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw OutputError(str("cannot write ", path.string(), ": ", std::strerror(errno)));
}

formats::Matrix row(std::vector<double> values) {
  const size_t count = values.size();
  return {.rows = 1, .columns = count, .values = std::move(values)};
}

template <typename T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// The camera of the published files, which is for 640 × 480, scaled to other heights.
convert::BiwiCalibration biwi_calibration(int height) {
  const double s = height / 480.0;
  return {.camera = {{{517.679 * s, 0, 320 * s}, {0, 517.679 * s, 240.5 * s}, {0, 0, 1}}},
          .rotation = convert::rotation({}),
          .translation = {-24.0198, 5.8896, -13.2308},
          .width = height * 4 / 3,
          .height = height};
}

}  // namespace

std::string digits(int64_t value, int width) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*lld", width, static_cast<long long>(value));
  return text;
}

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
  convert::HeadPose pose = draw_pose(seed, picture);
  ScenePlacement place = draw_placement(seed, picture, size, size, 0.19, 0.1);
  formats::Image image = draw_background(seed, name.photo, size, size);
  render(head_model(draw_person(seed, name.photo)), pose, place, draw_light(seed, name.photo),
         image);
  add_noise(seed, picture, image);
  if (name.flip) {
    image = mirrored(image);
    pose = mirrored(pose);
    place.x = size - place.x;
  }
  constexpr double kRadian = std::numbers::pi / 180;
  const fs::path base = folder / name.path();
  write_file(base.string() + ".jpg", formats::encode_jpeg(image));
  // Units as in the original: translation in pixels from the lower left corner, scale in pixels
  // per micrometer.
  formats::write_mat(
      base.string() + ".mat",
      {{"Pose_Para", row({pose.pitch * kRadian, pose.yaw * kRadian, pose.roll * kRadian, place.x,
                          size - place.y, 0, place.scale / (1000 * kMillimetersPerUnit)})},
       {"pt2d", landmarks(pose, place)},
       {"roi", row({place.x - place.scale, place.y - place.scale, place.x + place.scale,
                    place.y + place.scale})}});
}

int64_t biwi_sequences(int64_t samples) { return std::clamp<int64_t>(samples / 10, 1, 24); }

void write_biwi_calibration(const fs::path& folder, int64_t sequence, int height) {
  const std::string text = to_text(biwi_calibration(height));
  write_file(folder / digits(sequence + 1, 2) / "rgb.cal", std::as_bytes(std::span(text)));
}

void write_biwi(const fs::path& folder, uint64_t seed, int64_t index, int64_t sequences,
                int height) {
  const std::string sequence = digits(index % sequences + 1, 2);
  const convert::BiwiCalibration calibration = biwi_calibration(height);
  const int width = calibration.width;
  const convert::HeadPose pose = draw_pose(seed, index);

  // Draws a place in front of the camera, then projects it with the calibration.
  const double distance = 850 + 300 * draw_placement(seed, index, 1, 1, 1, 1).y;
  const ScenePlacement drawn = draw_placement(seed, index, width, height, 1, 0.15);
  const double focal = calibration.camera[0][0];
  const convert::BiwiPose truth{.rotation = rotation(pose),
                                .center = {(drawn.x - width / 2.0) / focal * distance,
                                           (drawn.y - height / 2.0) / focal * distance, distance}};
  const formats::Box box = convert::head_box(truth, calibration);
  const ScenePlacement place{
      .x = (box.left + box.right) / 2,
      .y = (box.top + box.bottom) / 2,
      .scale = (box.right - box.left) / convert::kHeadBoxMm * kMillimetersPerUnit};

  const std::string person = convert::biwi_person(sequence);
  const auto person_key = static_cast<int64_t>(xxh64(person) >> 1);
  const int64_t room = index % sequences;
  formats::Image image = draw_background(seed, room, width, height);
  render(head_model(draw_person(seed, person_key)), pose, place, draw_light(seed, room), image);
  add_noise(seed, index, image);

  const fs::path base = folder / sequence / ("frame_" + digits(index / sequences + 3, 5));
  const std::string text = to_text(truth);
  write_file(base.string() + "_rgb.png", formats::encode_png(image));
  write_file(base.string() + "_pose.txt", std::as_bytes(std::span(text)));
}

void write_class_folders(const convert::RawSet& set, const fs::path& folder, int threads,
                         const ReportProgress& report) {
  const data::Schema schema = set.schema();
  parallel_for(
      static_cast<int64_t>(set.samples().size()), threads,
      [&](int64_t i) {
        const auto at = static_cast<size_t>(i);
        const convert::Record record = set.read(at);
        const fs::path file = folder / set.samples().name(at);
        if (schema.input.variable()) {
          const std::vector<float> values = values_of<float>(record.input);
          const int64_t features = schema.input.row_elements();
          write_file(file, formats::to_npy(
                               values, {static_cast<int64_t>(values.size()) / features, features}));
        } else {
          formats::Image image(static_cast<int>(schema.input.shape[1]),
                               static_cast<int>(schema.input.shape[0]));
          std::memcpy(image.rgb.data(), record.input.data(), image.rgb.size());
          write_file(file, formats::encode_png(image));
        }
      },
      report, kDrawing);
}

void write_pointer_npz(const convert::RawSet& set, const fs::path& file, int64_t max_length,
                       int threads, const ReportProgress& report) {
  constexpr int64_t kGiven = convert::kPointerFeatures - 1;
  const auto sets = static_cast<int64_t>(set.samples().size());
  std::vector<float> features(static_cast<size_t>(sets * max_length * kGiven));
  std::vector<int64_t> order(static_cast<size_t>(sets * max_length), -1);
  std::vector<int64_t> lengths(set.samples().size()), split(set.samples().size());
  const auto draw = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    const convert::Record record = set.read(at);
    const std::vector<float> from = values_of<float>(record.input);
    const std::vector<int64_t> right = values_of<int64_t>(record.target);
    lengths[at] = static_cast<int64_t>(right.size());
    for (int64_t k = 0; k < lengths[at]; ++k) {
      const auto element = from.begin() + k * convert::kPointerFeatures;
      std::copy(element, element + kGiven, features.begin() + (i * max_length + k) * kGiven);
    }
    std::copy(right.begin(), right.end(), order.begin() + i * max_length);
    split[at] = static_cast<int64_t>(set.samples().split(at)) - 1;  // 0 train, 1 val, 2 test
  };
  parallel_for(sets, threads, draw, report, kDrawing);
  if (file.has_parent_path()) real_file_system().create_folders(file.parent_path());
  formats::write_npz(file, {{"features", formats::to_npy(features, {sets, max_length, kGiven})},
                            {"lengths", formats::to_npy(lengths, {sets})},
                            {"order", formats::to_npy(order, {sets, max_length})},
                            {"split", formats::to_npy(split, {sets})}});
}

}  // namespace dtrain::synth

// 300W-LP and AFLW2000-3D: pictures next to .mat files of the same name, which contain pose
// and landmarks.

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "convert/head_pose_set.h"
#include "core/error.h"
#include "formats/list_files.h"
#include "formats/mat_file.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;
constexpr std::array<const char*, 4> kSources{"AFW", "HELEN", "IBUG", "LFPW"};

HeadPose pose_of(const formats::Matrices& mat) {
  const auto found = mat.find("Pose_Para");
  if (found == mat.end()) throw DataError("its .mat has no Pose_Para");
  // Pitch, yaw, roll, then translation and scale
  const std::vector<double>& radians = found->second.values;
  if (radians.size() < 3)
    throw DataError(str("Pose_Para has ", radians.size(), " elements, 7 expected"));
  constexpr double kDegrees = 180 / std::numbers::pi;
  const HeadPose pose{
      .yaw = radians[1] * kDegrees, .pitch = radians[0] * kDegrees, .roll = radians[2] * kDegrees};
  if (!finite(pose)) throw DataError("Pose_Para contains NaN or infinity");
  return pose;
}

// In AFLW2000, pt2d has AFLW's 21 points, hidden ones at (-1, -1), and pt3d_68 has the 68 points.
const formats::Matrix& points_of(const formats::Matrices& mat) {
  for (const char* name : {"pt3d_68", "pt2d"}) {
    const auto found = mat.find(name);
    if (found != mat.end()) return found->second;
  }
  throw DataError("its .mat has neither pt2d nor pt3d_68");
}

struct Point {
  double x = 0, y = 0;
};

// A column is a landmark, as published (x, y, perhaps z), or a row, as some programs write them.
std::vector<Point> visible_points(const formats::Matrix& points) {
  const auto coordinates = [](size_t count) { return count == 2 || count == 3; };
  const bool by_column = coordinates(points.rows);
  const bool by_row = !by_column && coordinates(points.columns) && points.rows > 3;
  if (!by_column && !by_row) {
    throw DataError(str("the landmarks are a matrix of ", points.rows, " x ", points.columns,
                        "; 2 rows (x, y) and a column for each landmark are expected"));
  }
  const size_t count = by_column ? points.columns : points.rows;
  std::vector<Point> visible;
  for (size_t i = 0; i < count; ++i) {
    const Point point =
        by_column ? Point{points(0, i), points(1, i)} : Point{points(i, 0), points(i, 1)};
    if (point.x == -1 && point.y == -1) continue;  // hidden
    if (!std::isfinite(point.x) || !std::isfinite(point.y))
      throw DataError("the landmarks contain NaN or infinity");
    visible.push_back(point);
  }
  if (visible.empty())
    throw DataError(str("all ", count, " landmarks are hidden (at -1, -1): no face"));
  return visible;
}

// The .mat file beside a picture.
formats::Matrices annotation_of(fs::path picture, const std::vector<std::string>& names) {
  fs::path annotation = picture.replace_extension(".mat");
  if (!is_there(annotation)) {
    if (!is_there(picture.replace_extension(".MAT"))) {
      throw DataError(str("no ", annotation.filename().string(), " next to it"));
    }
    annotation = picture;
  }
  return formats::read_mat(annotation, names);
}

formats::Image crop(const fs::path& picture, const formats::Matrices& mat, int size) {
  const formats::Image image = formats::read_image(picture);
  return formats::resample(image, landmark_box(points_of(mat), image.width, image.height), size,
                           size);
}

class LandmarkSet : public HeadPoseSet {
 public:
  LandmarkSet(const catalog::TaskEntry& task, fs::path folder, int size)
      : HeadPoseSet(task, size), folder_(std::move(folder)) {}

 protected:
  LabeledImage read_picture(const RawSample& sample, int size) const override {
    const fs::path picture = folder_ / sample.name;
    if (!is_there(picture)) throw DataError("there is a .mat file, but no picture with that name");
    const formats::Matrices mat = annotation_of(picture, {"Pose_Para", "pt2d", "pt3d_68"});
    const HeadPose pose = pose_of(mat);
    return {crop(picture, mat, size), pose};
  }

  // Pictures, and .mat files without one, so that neither is silently ignored. Empty if the folder
  // does not exist.
  std::set<std::string> names_in(const fs::path& sub_folder) {
    std::set<std::string> names;
    std::error_code unknown;  // folder_entries() then reports the reason
    if (!fs::exists(folder_ / sub_folder, unknown) && !unknown) return names;
    const std::vector<fs::path> entries = formats::folder_entries(folder_ / sub_folder, left_out_);
    std::set<std::string> stems;
    for (const fs::path& path : entries) {
      if (!formats::has_extension(path, formats::kPictureExtensions)) continue;
      names.insert((sub_folder / path.filename()).string());
      stems.insert(path.stem().string());
    }
    for (const fs::path& path : entries) {
      if (!formats::has_extension(path, {".mat"}) || stems.contains(path.stem().string())) continue;
      names.insert((sub_folder / path.stem()).string() + ".jpg");
    }
    return names;
  }

  fs::path folder_;
  formats::ToolFiles left_out_;
};

// "AFW_134212_1_17" -> "AFW_134212_1"
std::string without_view(const std::string& stem) {
  const size_t underscore = stem.rfind('_');
  if (underscore == std::string::npos || underscore == 0 || underscore + 1 == stem.size())
    return stem;
  const bool number = std::all_of(stem.begin() + static_cast<std::ptrdiff_t>(underscore) + 1,
                                  stem.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  return number ? stem.substr(0, underscore) : stem;
}

class ThreeHundredWLp : public LandmarkSet {
 public:
  ThreeHundredWLp(const catalog::TaskEntry& task, const fs::path& folder, int size)
      : LandmarkSet(task, folder, size) {
    for (const char* source : kSources) {
      for (const char* twin : {"", "_Flip"}) {
        for (const std::string& name : names_in(str(source, twin))) {
          samples_.push_back(
              {name, str(source, "/", without_view(fs::path(name).stem().string()))});
        }
      }
    }
    samples_.sort_by_name();
    formats::log_left_out(left_out_);
  }
  std::string protocol(const std::vector<uint32_t>& /*tested*/) const override {
    return "300W-LP: split by source photo, its views and mirror images together";
  }
};

class Aflw2000 : public LandmarkSet {
 public:
  Aflw2000(const catalog::TaskEntry& task, const fs::path& folder, int size)
      : LandmarkSet(task, folder, size) {
    for (const std::string& name : names_in(""))
      samples_.push_back({name, fs::path(name).stem().string()});
    formats::log_left_out(left_out_);
  }
  bool all_test() const override { return true; }
  std::string protocol(const std::vector<uint32_t>& /*tested*/) const override {
    return str("AFLW2000: all samples within ±", kLargestAngle, " degrees are the test");
  }
};

// Skips the archive's top-level folder if it exists.
fs::path descend(const fs::path& folder, const char* inner) {
  return fs::is_directory(folder / inner) ? folder / inner : folder;
}

template <typename Set>
std::unique_ptr<RawSet> open(const catalog::TaskEntry& task, const fs::path& folder, int size,
                             const char* layout) {
  auto set = std::make_unique<Set>(task, folder, size);
  if (set->samples().empty())
    throw DataError(str("no samples in ", folder.string(), ". Expected: ", layout));
  return set;
}

}  // namespace

formats::Box landmark_box(const formats::Matrix& points, int picture_width, int picture_height) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double left = kInfinity, top = kInfinity, right = -kInfinity, bottom = -kInfinity;
  bool any_inside = false;
  const std::vector<Point> visible = visible_points(points);
  for (const auto& [x, y] : visible) {
    left = std::min(left, x), right = std::max(right, x);
    top = std::min(top, y), bottom = std::max(bottom, y);
    any_inside = any_inside || (x >= 0 && y >= 0 && x <= picture_width && y <= picture_height);
  }
  if (!any_inside) {
    throw DataError(str("none of its ", visible.size(), " landmarks is in the picture of ",
                        picture_width, " x ", picture_height, " pixels: x is ", left, " to ", right,
                        ", y is ", top, " to ", bottom));
  }
  constexpr double k = 0.2;
  const double width = right - left, height = bottom - top;
  if (!(width >= 1 && height >= 1 && width < 1e5 && height < 1e5)) {
    throw DataError(str("the landmarks span ", width, " x ", height, " pixels: no face"));
  }
  left -= 0.6 * k * width, right += 0.6 * k * width;
  top -= 2 * k * height, bottom += 0.6 * k * height;
  const double x = (left + right) / 2, y = (top + bottom) / 2,
               half = std::max(right - left, bottom - top) / 2;
  return {.left = x - half, .top = y - half, .right = x + half, .bottom = y + half};
}

formats::Image landmark_head(const fs::path& picture, int size) {
  return crop(picture, annotation_of(picture, {"pt2d", "pt3d_68"}), size);
}

std::unique_ptr<RawSet> open_300wlp(const catalog::TaskEntry& task, const fs::path& folder,
                                    int size) {
  return open<ThreeHundredWLp>(
      task, descend(folder, "300W_LP"), size,
      "subfolders AFW, HELEN, IBUG, LFPW and their *_Flip, with NAME.jpg next to NAME.mat");
}

std::unique_ptr<RawSet> open_aflw2000(const catalog::TaskEntry& task, const fs::path& folder,
                                      int size) {
  return open<Aflw2000>(task, descend(folder, "AFLW2000"), size,
                        "one folder with NAME.jpg next to NAME.mat");
}

}  // namespace dtrain::convert

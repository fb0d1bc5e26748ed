#include <algorithm>
#include <map>
#include <set>

#include "convert/biwi_files.h"
#include "convert/head_pose_set.h"
#include "core/error.h"
#include "formats/list_files.h"
#include "os/file_system.h"
#include "text/strings.h"

namespace dtrain::convert {
namespace {

namespace fs = std::filesystem;

// The person in each sequence, from the data set's documentation (as in its Hugging Face loader).
// Four of the 20 people were recorded twice.
const std::map<std::string, std::string> kPersons{
    {"01", "F01"}, {"02", "F02"}, {"03", "F03"}, {"04", "F04"}, {"05", "F05"}, {"06", "F06"},
    {"07", "M01"}, {"08", "M02"}, {"09", "M03"}, {"10", "M04"}, {"11", "M05"}, {"12", "M06"},
    {"13", "M07"}, {"14", "M08"}, {"15", "F03"}, {"16", "M09"}, {"17", "M10"}, {"18", "F05"},
    {"19", "M11"}, {"20", "M12"}, {"21", "F02"}, {"22", "M01"}, {"23", "M13"}, {"24", "M14"}};

constexpr const char* kPicture = "_rgb";
constexpr const char* kPose = "_pose.txt";

bool two_digits(const std::string& name) {
  return name.size() == 2 && name.find_first_not_of("0123456789") == std::string::npos;
}

BiwiPose pose_beside(const fs::path& picture) {
  const std::string file = picture.filename().string();
  const size_t end = file.rfind(kPicture);
  if (end == std::string::npos) throw DataError("its name is not frame_NNNNN_rgb.png");
  return read_biwi_pose(picture.parent_path() / (file.substr(0, end) + kPose));
}

formats::Image crop(const fs::path& picture, const BiwiPose& pose, int size) {
  const BiwiCalibration calibration = read_biwi_calibration(picture.parent_path() / "rgb.cal");
  const formats::Image image = formats::read_image(picture);
  check_picture_size(calibration, image.width, image.height);
  const formats::Box box = head_box(pose, calibration);
  const double x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
  if (!(x >= 0 && y >= 0 && x <= image.width && y <= image.height)) {
    throw DataError(str("the head's center is at (", fixed(x, 1), ", ", fixed(y, 1),
                        "), outside of the picture of ", image.width, " x ", image.height,
                        " pixels"));
  }
  return formats::resample(image, box, size, size);
}

class Biwi : public HeadPoseSet {
 public:
  Biwi(const catalog::TaskEntry& task, fs::path folder, int size,
       const std::vector<std::string>& test)
      : HeadPoseSet(task, size), folder_(std::move(folder)) {
    formats::ToolFiles left_out;
    for (const fs::path& path : formats::folder_entries(folder_, left_out)) {
      const std::string sequence = path.filename().string();
      if (!two_digits(sequence) || !fs::is_directory(path)) continue;
      sequences_.insert(sequence);
      for (const std::string& name : frames(path, left_out)) {
        samples_.push_back({sequence + "/" + name, biwi_person(sequence)});
      }
    }
    samples_.sort_by_name();
    formats::log_left_out(left_out);
    for (const std::string& sequence : test) {
      if (!sequences_.contains(sequence)) {
        throw DataError(
            str("test sequence ", sequence, " is not in ", folder_.string(), ", which contains ",
                join(std::vector<std::string>(sequences_.begin(), sequences_.end()), ", ")));
      }
    }
    for (const std::string& sequence : test.empty() ? kBiwiTestSequences : test) {
      if (sequences_.contains(sequence)) test_groups_.push_back(biwi_person(sequence));
    }
  }

  std::vector<std::string> test_groups() const override { return test_groups_; }

  // Uses the stored samples, because a listed sequence may be damaged, and others are added for
  // their person.
  std::string protocol(const std::vector<uint32_t>& tested) const override {
    std::set<std::string> sequences;
    for (const uint32_t sample : tested) {
      const std::string name = samples_.name(sample);
      sequences.insert(name.substr(0, name.find('/')));
    }
    if (sequences.empty()) return "BIWI: no test sequences";
    return str("BIWI: test sequences ",
               join(std::vector<std::string>(sequences.begin(), sequences.end()), ", "),
               "; split by person");
  }

 protected:
  LabeledImage read_picture(const RawSample& sample, int size) const override {
    const fs::path picture = folder_ / sample.name;
    if (!is_there(picture)) throw DataError("there is a pose file, but no picture");
    const BiwiPose pose = pose_beside(picture);
    const HeadPose angles = head_pose(pose.rotation);
    return {crop(picture, pose, size), angles};
  }

 private:
  // Names of the pictures, including those of which only the pose file exists.
  static std::set<std::string> frames(const fs::path& folder, formats::ToolFiles& left_out) {
    const std::vector<fs::path> entries = formats::folder_entries(folder, left_out);
    std::set<std::string> names, stems;
    for (const fs::path& path : entries) {
      const std::string stem = path.stem().string();
      if (!stem.starts_with("frame_") || !stem.ends_with(kPicture)) continue;
      if (!formats::has_extension(path, formats::kPictureExtensions)) continue;
      names.insert(path.filename().string());
      stems.insert(stem);
    }
    for (const fs::path& path : entries) {
      const std::string name = path.filename().string();
      if (!name.starts_with("frame_") || !name.ends_with(kPose)) continue;
      const std::string stem = name.substr(0, name.size() - std::string(kPose).size()) + kPicture;
      if (!stems.contains(stem)) names.insert(stem + ".png");
    }
    return names;
  }

  fs::path folder_;
  std::set<std::string> sequences_;
  std::vector<std::string> test_groups_;
};

}  // namespace

std::string biwi_person(const std::string& sequence) {
  const auto found = kPersons.find(sequence);
  return found == kPersons.end() ? sequence : found->second;
}

formats::Image biwi_head(const fs::path& picture, int size) {
  return crop(picture, pose_beside(picture), size);
}

std::unique_ptr<RawSet> open_biwi(const catalog::TaskEntry& task, const fs::path& folder, int size,
                                  const std::vector<std::string>& test) {
  const fs::path inner = fs::is_directory(folder / "hpdb") ? folder / "hpdb" : folder;
  auto set = std::make_unique<Biwi>(task, inner, size, test);
  if (set->samples().empty()) {
    throw DataError(str(
        "no samples in ", inner.string(),
        ". Expected: folders 01 to 24 with rgb.cal, frame_NNNNN_rgb.png and frame_NNNNN_pose.txt"));
  }
  return set;
}

}  // namespace dtrain::convert

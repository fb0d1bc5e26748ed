#pragma once

// A folder in the layout in which a head-pose data set is published: which samples it holds, and how one is read.
// Listing is cheap (file names only); reading decodes and crops one sample and may be done by many threads at once.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/convert/head_pose.h"
#include "data/convert/image.h"

namespace dtrain::data {

struct RawSample {
  std::string name;   // of the picture, relative to the folder: the sample's provenance
  std::string group;  // source photo or person: samples that must not be on both sides of a split
};

struct LabelledImage {
  Image image;  // size × size
  HeadPose pose;
};

class RawSet {
 public:
  virtual ~RawSet() = default;
  virtual const std::vector<RawSample>& samples() const = 0;  // sorted by name
  // Throws DataError with the reason, which does not repeat the sample's name. The pose may be out of range, not NaN.
  virtual LabelledImage read(const RawSample&, int size) const = 0;
  // The groups of the test split where the data set itself or its protocol names them; else empty.
  virtual std::vector<std::string> test_groups() const { return {}; }
  virtual bool all_test() const { return false; }  // a pure test set
};

// 300W-LP: sub-folders AFW, HELEN, IBUG, LFPW and their *_Flip twins, NAME_K.jpg beside NAME_K.mat, K the rendered
// view.
std::unique_ptr<RawSet> open_300wlp(const std::filesystem::path& folder);
// AFLW2000-3D: one folder of NAME.jpg beside NAME.mat.
std::unique_ptr<RawSet> open_aflw2000(const std::filesystem::path& folder);
// BIWI Kinect: folders 01 to 24 of frame_NNNNN_rgb.png and frame_NNNNN_pose.txt, each with rgb.cal. `test` names
// sequences
// ("03", ...); empty: kBiwiTestSequences. All sequences of their persons go to the test split.
std::unique_ptr<RawSet> open_biwi(const std::filesystem::path& folder, const std::vector<std::string>& test);

// A third of the 24 sequences, as in the usual 16 : 8 protocol, but chosen so that no person is on both sides (four
// people were recorded twice) and both sexes are tested: seven persons.
inline const std::vector<std::string> kBiwiTestSequences{"03", "06", "09", "12", "15", "17", "20", "24"};
std::string biwi_person(const std::string& sequence);  // "F03" for "03" and "15"; the name itself if unknown

// The rectangle of Hopenet around landmarks (k = 0.2): 0.6 k wider on both sides and below, 2 k above; then the square
// of its longer side about its centre, so that nothing is cut off or distorted. Points as 2 × N (or more rows) matrix.
struct Matrix;
Box landmark_box(const Matrix& points);

}  // namespace dtrain::data

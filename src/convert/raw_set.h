#pragma once

// Data as others publish or keep it: which samples it holds, and how one is read. Listing is cheap (names and headers);
// reading decodes one sample and may be done by many threads at once.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "data/store.h"

namespace dtrain::convert {

struct RawSample {
  std::string name;     // file relative to the folder, or FILE.npz#index: the sample's provenance
  std::string group;    // source photo or person: samples that must not be on both sides of a split
  int64_t label = -1;   // its class, where there are classes: splits are stratified by it
  std::string split{};  // where the data set itself says it: "train", "val" or "test"; else ""
};

// One sample as it is stored: whole rows of the schema's input and target.
struct Record {
  std::vector<std::byte> input, target;
  bool beyond_range = false;  // whole, but left out as the literature leaves it out
};

class RawSet {
 public:
  virtual ~RawSet() = default;
  virtual const std::vector<RawSample>& samples() const = 0;  // sorted by name, or as in their file
  virtual data::Schema schema() const = 0;                    // task, input and target; samples and checksum are 0
  // Throws DataError with the reason, which does not repeat the sample's name.
  virtual Record read(size_t sample) const = 0;
  virtual std::map<std::string, std::string> attributes() const { return {}; }  // of the file
  virtual std::vector<std::string> classes() const { return {}; }               // names by label, sorted
  // The groups of the test split where the data set's protocol names them; else empty.
  virtual std::vector<std::string> test_groups() const { return {}; }
  virtual bool all_test() const { return false; }  // a pure test set
  // What the report of an evaluation on this set is to name, in a line: which samples are tested, and what is never on
  // both sides. `tested`: the samples of the test split that are stored. "": nothing to name.
  virtual std::string protocol(const std::vector<std::string>& /*tested*/) const { return ""; }
  // Of the samples. 0 where the trainer is to take its validation share out of the training split, by group.
  virtual double usual_val_share() const { return 0.1; }
  // Of all samples as stored, before any is left out. Unless it is overridden: 0, unknown, where their size varies.
  virtual int64_t expected_bytes() const {
    const data::Schema one = schema();
    const bool varies = one.input.variable() || one.target.variable();
    return varies ? 0 : static_cast<int64_t>(samples().size()) * (one.input.row_bytes() + one.target.row_bytes());
  }
  virtual std::string content_key() const { return ""; }  // what decides the content besides names and settings
};

std::unique_ptr<RawSet> open_images(const std::filesystem::path& folder, int size);
// Reads all headers, and reports that as the stage "listing".
std::unique_ptr<RawSet> open_sequences(const std::filesystem::path& folder, int threads,
                                       const ReportProgress& report = {});
std::unique_ptr<RawSet> open_pointer_sets(const std::filesystem::path& file);

// 300W-LP: sub-folders AFW, HELEN, IBUG, LFPW and their *_Flip twins, NAME_K.jpg beside NAME_K.mat, K the rendered
// view.
std::unique_ptr<RawSet> open_300wlp(const std::filesystem::path& folder, int size);
// AFLW2000-3D: one folder of NAME.jpg beside NAME.mat.
std::unique_ptr<RawSet> open_aflw2000(const std::filesystem::path& folder, int size);
// BIWI Kinect: folders 01 to 24 of frame_NNNNN_rgb.png and frame_NNNNN_pose.txt, each with rgb.cal. `test` names
// sequences ("03", ...); empty: kBiwiTestSequences. All sequences of their persons go to the test split.
std::unique_ptr<RawSet> open_biwi(const std::filesystem::path& folder, int size, const std::vector<std::string>& test);

// A third of the 24 sequences, as in the usual 16 : 8 protocol, but chosen so that no person is on both sides (four
// people were recorded twice) and both sexes are tested: seven persons.
inline const std::vector<std::string> kBiwiTestSequences{"03", "06", "09", "12", "15", "17", "20", "24"};
std::string biwi_person(const std::string& sequence);  // "F03" for "03" and "15"; the name itself if unknown

}  // namespace dtrain::convert

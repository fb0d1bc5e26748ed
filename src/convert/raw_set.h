#pragma once

// A raw data set, as published or kept by its users: the list of its samples, and how to read one.
// Listing is cheap: it uses only names and headers. Reading decodes one sample.
//
// Errors: DataError. Thread-safety: all const methods may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "convert/sample_list.h"
#include "convert/stored_sample.h"
#include "core/parallel.h"
#include "data/store.h"

namespace dtrain::convert {

// One sample as stored: whole rows of the schema's input and target.
struct Record {
  std::vector<std::byte> input, target;
  bool beyond_range = false;  // valid, but left out because the literature leaves it out
};

class RawSet {
 public:
  explicit RawSet(const catalog::TaskEntry& task) : task_(task) {}  // borrows the row
  virtual ~RawSet() = default;
  virtual const SampleList& samples() const = 0;  // sorted by name, or in the order of their file
  virtual data::Schema schema() const = 0;        // without samples and checksum, which are 0
  // Whether each sample is a file of the folder. Otherwise samples are parts of one file, and many
  // small ones are read at a time.
  virtual bool samples_are_files() const { return true; }
  // Throws DataError with the reason; callers add the sample's name.
  virtual Record read(size_t sample) const = 0;
  data::Attributes attributes() const { return attributes_of(task_); }  // root ones of the file
  virtual std::vector<std::string> classes() const { return {}; }       // names by label
  // The groups of the test split if the data set's protocol defines them, otherwise empty.
  virtual std::vector<std::string> test_groups() const { return {}; }
  virtual bool all_test() const { return false; }  // whether the set is used for testing only
  // One line for evaluation reports: which samples are tested, and what is never in two splits.
  // Empty if there is nothing to report. `tested`: the stored samples of the test split.
  virtual std::string protocol(const std::vector<uint32_t>& /*tested*/) const { return ""; }
  // Whether valid samples may be left out: Record::beyond_range.
  virtual bool has_range() const { return false; }
  double usual_val_share() const { return task_.val_share; }  // default of the validation split's
  // Size of all samples as stored, including those left out later. By default 0 (unknown) if their
  // size varies.
  virtual int64_t expected_bytes() const {
    const data::Schema one = schema();
    const bool varies = one.input.variable() || one.target.variable();
    return varies ? 0
                  : static_cast<int64_t>(samples().size()) *
                        (one.input.row_bytes() + one.target.row_bytes());
  }
  // A key of the content, besides names and settings
  virtual std::string content_key() const { return ""; }

 protected:
  const catalog::TaskEntry& task_;
};

// How folders whose names are classes are read (class_folders.h).
struct FolderOptions {
  std::optional<bool>
      splits{};  // whether folders named for splits are splits; nullopt: if that is clear
  std::vector<std::string> classes{};  // all classes, by label; empty: those of the folders, sorted
};

std::unique_ptr<RawSet> open_images(const catalog::TaskEntry&, const std::filesystem::path& folder,
                                    int size, const FolderOptions& = {});
// Reads all headers and reports this as the stage "listing".
std::unique_ptr<RawSet> open_sequences(const catalog::TaskEntry&,
                                       const std::filesystem::path& folder, int threads,
                                       const FolderOptions& = {},
                                       const ReportProgress& report = {});
std::unique_ptr<RawSet> open_pointer_sets(const catalog::TaskEntry&,
                                          const std::filesystem::path& file);
// Inputs and targets from an .npz file, for a task with `from_arrays` (array_set.cpp). `classes`:
// all classes, by label; empty: those of the file.
std::unique_ptr<RawSet> open_arrays(const catalog::TaskEntry&, const std::filesystem::path& file,
                                    const std::vector<std::string>& classes = {});

// 300W-LP: subfolders AFW, HELEN, IBUG, LFPW and their mirrored versions *_Flip, with NAME_K.jpg
// next to NAME_K.mat, where K is the rendered view.
std::unique_ptr<RawSet> open_300wlp(const catalog::TaskEntry&, const std::filesystem::path& folder,
                                    int size);
// AFLW2000-3D: one folder with NAME.jpg next to NAME.mat.
std::unique_ptr<RawSet> open_aflw2000(const catalog::TaskEntry&,
                                      const std::filesystem::path& folder, int size);
// BIWI Kinect: folders 01 to 24 with rgb.cal, frame_NNNNN_rgb.png and frame_NNNNN_pose.txt. `test`
// lists sequences, such as "03"; empty: kBiwiTestSequences. All sequences of the persons in them go
// to the test split.
std::unique_ptr<RawSet> open_biwi(const catalog::TaskEntry&, const std::filesystem::path& folder,
                                  int size, const std::vector<std::string>& test);

// 8 of the 24 sequences, as in the usual 16:8 protocol, but chosen so that no person is in both
// splits (four people were recorded twice) and both sexes are tested. They show seven persons.
inline const std::vector<std::string> kBiwiTestSequences{"03", "06", "09", "12",
                                                         "15", "17", "20", "24"};
std::string biwi_person(
    const std::string& sequence);  // "F03" for "03" and "15"; an unknown name is returned unchanged

}  // namespace dtrain::convert

#pragma once

// Folders whose names are classes: DIR/CLASS/…, or DIR/train/CLASS/…, DIR/val/CLASS/… and DIR/test/CLASS/… (any of the
// three) when those are the sub-folders. Every file in a class folder, however deep, is a sample, whatever it is
// called: what cannot be read is to be quarantined with its reason, not passed over. Hidden files and folders and what
// desktops leave behind (Thumbs.db, desktop.ini, __MACOSX) are none. Other files beside the folders, such as a README,
// are passed over and counted; one that may be meant as a sample is an error there, as it has no class.

#include <filesystem>
#include <string>
#include <vector>

#include "convert/raw_set.h"

namespace dtrain::convert {

struct ClassFolders {
  std::vector<std::string> classes;  // sorted
  std::vector<RawSample> samples;    // sorted by name; label: index in classes
};

// What the samples are called in messages ("JPEG or PNG pictures"), and how their names usually end.
struct SampleFiles {
  std::string what;
  std::vector<std::string> extensions;
};

// Throws DataError: no such folder, no or one class only, an empty class folder, a class that the training folder has
// not, folders beside train, val and test, samples where folders are expected, a name that cannot be kept.
ClassFolders list_class_folders(const std::filesystem::path& folder, const SampleFiles&);

// A set that lies in such folders, of which each file is one sample; the target is its class.
class ClassFolderSet : public RawSet {
 public:
  ClassFolderSet(const std::filesystem::path& folder, const SampleFiles& kind)  // as list_class_folders()
      : folder_(folder), listed_(list_class_folders(folder, kind)) {}
  const std::vector<RawSample>& samples() const override { return listed_.samples; }
  std::vector<std::string> classes() const override { return listed_.classes; }
  Record read(size_t sample) const override;

 protected:
  std::filesystem::path file(size_t sample) const { return folder_ / listed_.samples[sample].name; }
  virtual std::vector<std::byte> input(const std::filesystem::path& file) const = 0;  // errors as of read()

 private:
  std::filesystem::path folder_;
  ClassFolders listed_;
};

}  // namespace dtrain::convert

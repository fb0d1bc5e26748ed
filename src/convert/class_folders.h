#pragma once

// Folders whose names are classes: DIR/CLASS/..., or any of DIR/train/CLASS/..., DIR/val/CLASS/...
// and DIR/test/CLASS/..., where splits may have other names (split_folders.h). Every file below a
// class folder is a sample, whatever its name: a file that cannot be read is quarantined with its
// reason, not silently ignored. Exceptions are files and folders of tools (formats/tool_files.h),
// which are counted in one line of the log. Class folders whose names are the same in Unicode's NFC
// are one class. Files next to the class folders, such as a README, are ignored and logged; but a
// file that looks like a sample is an error there, because it has no class.

#include <filesystem>
#include <string>
#include <vector>

#include "convert/raw_set.h"

namespace dtrain::convert {

struct ClassFolders {
  std::vector<std::string> classes;  // one per label, in label order
  SampleList samples;                // sorted by name; `label` is an index in `classes`
};

// The name of the samples in messages ("JPEG, PNG or WebP pictures"), and their usual extensions.
struct SampleFiles {
  std::string what;
  std::vector<std::string> extensions;
};

// A test folder with samples directly in it, beside other splits, is left out, because it has no
// labels. Where all classes are given, a set for evaluation may lack some of them, and train/ may,
// too. Throws DataError if the folder is missing, has fewer than two classes, or contains an empty
// class folder, a class that train/ lacks, one that is not among those given, folders that can be
// read in two ways, samples outside class folders, or a class name that a file cannot store.
ClassFolders list_class_folders(const std::filesystem::path& folder, const SampleFiles&,
                                const FolderOptions&);

// A set in such folders: each file is one sample, and its target is its class.
class ClassFolderSet : public RawSet {
 public:
  // Throws as list_class_folders().
  ClassFolderSet(const catalog::TaskEntry& task, const std::filesystem::path& folder,
                 const SampleFiles& kind, const FolderOptions& options)
      : RawSet(task), folder_(folder), listed_(list_class_folders(folder, kind, options)) {}
  const SampleList& samples() const override { return listed_.samples; }
  std::vector<std::string> classes() const override { return listed_.classes; }
  Record read(size_t sample) const override;

 protected:
  std::filesystem::path file(size_t sample) const { return folder_ / listed_.samples.name(sample); }
  // Throws as read()
  virtual std::vector<std::byte> input(const std::filesystem::path& file) const = 0;

 private:
  std::filesystem::path folder_;
  ClassFolders listed_;
};

}  // namespace dtrain::convert

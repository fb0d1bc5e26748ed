#pragma once

// Converts a raw data set to one dtrain HDF5 file (docs/file_formats.md), ready for training.
// Head-pose sets: pictures are cropped to the head and scaled, targets are yaw, pitch and roll in
// degrees, and no photo or person is in two splits. Class folders of images and sequences, files of
// sets with orders, and files of arrays: see class_folders.h, stored_sample.h, pointer_file.h
// and array_set.cpp.
//
// Samples are converted in parallel; the result does not depend on the number of threads. A
// conversion that was killed, was interrupted or filled the disk can be resumed: its finished
// samples are kept in OUT.partial/ (spool.h). That folder is removed if it has no finished samples
// or if the data does not make a data set. Damaged samples are left out and listed with their
// reasons in OUT.quarantine.json.
//
// Errors: UsageError (unknown converter, option out of range), DataError (nothing usable, with the
// expected layout; an empty class, only one class, a class without training samples), OutputError
// (OUT exists and `force` is false, not writable, not enough space).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "convert/assign_splits.h"
#include "core/parallel.h"

namespace dtrain::convert {

struct ConvertOptions {
  std::filesystem::path source;  // the folder, or the .npz file
  std::filesystem::path out;
  int size = 0;        // side of the stored images in pixels; 0: that of the data set (catalog.h)
  int threads = 0;     // 0: number of cores this process may use
  bool force = false;  // replace an existing file
  SplitOptions split;
  std::optional<bool> splits_from_folders;  // images, sequence: FolderOptions::splits
  std::vector<std::string>
      classes;  // images, sequence, arrays: all classes, by label; empty: those found
  std::vector<std::string> test_sequences;  // biwi; empty: kBiwiTestSequences
  std::string task;                         // arrays: one of array_tasks(); empty: module
};

// What a conversion is about to do. Sizes are 0 if they are unknown.
struct ConvertPlan {
  int64_t samples = 0;
  double output_bytes = 0;   // size of the file if no sample is left out
  double working_bytes = 0;  // space still needed while both the spool and the file exist
  double free_bytes = 0;     // free space on the disk of the output
};

struct Quarantined {
  std::string name, reason;
};

inline constexpr size_t kMostQuarantined = 1000;

struct ConvertSummary {
  int64_t found = 0, kept = 0, beyond_range = 0, unlisted = 0, resumed = 0;
  int64_t groups = 0;
  data::Schema schema;
  double mean_rows = 0;                   // mean rows of the inputs if their size varies
  std::map<std::string, int64_t> splits;  // samples by split
  std::vector<std::pair<std::string, int64_t>> classes;  // samples by class
  int64_t repeated = 0;  // samples of other splits that are identical to a training sample
  int64_t damaged = 0;
  std::vector<Quarantined>
      quarantined;        // the first of the damaged samples, at most kMostQuarantined, in order
  Straddling straddling;  // groups that are in more than one of the given lists
  std::filesystem::path quarantine_file;  // empty if nothing was quarantined
  double seconds = 0;
};

// What is written beside OUT: the spool of a conversion that can be resumed, and the list of
// damaged samples.
std::filesystem::path partial_folder(const std::filesystem::path& out);
std::filesystem::path quarantine_file(const std::filesystem::path& out);

std::vector<std::string> array_tasks();  // those of `dtrain convert arrays --task`

// What can be said of the options before anything is read: UsageError, and DataError if the source
// is not there. convert() begins with it.
void check_options(const std::string& name, const ConvertOptions&);

// Calls `begin` once, before anything is written, even if there is not enough space. Calls
// `progress` on the calling thread several times a second and at the end of each stage (listing,
// reading, writing); an exception from it stops the conversion, which can be resumed later.
ConvertSummary convert(const std::string& name, const ConvertOptions&,
                       const ReportProgress& progress = {},
                       const std::function<void(const ConvertPlan&)>& begin = {});

}  // namespace dtrain::convert

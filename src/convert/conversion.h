#pragma once

// What is asked of a conversion (convert.h), and what it tells. Values.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/assign_splits.h"
#include "data/schema.h"

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
inline std::filesystem::path partial_folder(const std::filesystem::path& out) {
  return out.string() + ".partial";
}
inline std::filesystem::path quarantine_file(const std::filesystem::path& out) {
  return out.string() + ".quarantine.json";
}

}  // namespace dtrain::convert

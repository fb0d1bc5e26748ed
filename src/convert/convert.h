#pragma once

// Data as others publish or keep it -> one dtrain HDF5 file (docs/file_formats.md), ready to train. Head-pose sets:
// pictures cropped to the head and scaled, yaw, pitch, roll in degrees, splits without a photo or person on both sides.
// Folders of images and of sequences by class, and files of sets with orders: see photo.h, sequence_rows.h,
// pointer_file.h.
//
// Parallel over samples; the result does not depend on the number of threads. A conversion that was killed, interrupted
// or met a full disk goes on where it was: what it had done stays in OUT.partial/ (spool.h). Nothing stays of one that
// had done nothing, or whose data make no data set. Damaged samples are left out and listed in OUT.quarantine.json with
// their reason.
// Errors: UsageError (no such converter, an option out of range), DataError (nothing usable, with the layout that was
// expected; an empty class, one class only, a class that is not trained), OutputError (OUT exists and `force` is false,
// not writable, not enough room).

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
  int size = 0;        // side of the stored pictures in pixels; 0: that of the data set (catalog.h)
  int threads = 0;     // 0: as many as the cores this process may use
  bool force = false;  // replace an existing file
  SplitOptions split;
  std::vector<std::string> test_sequences;  // biwi; empty: kBiwiTestSequences
};

// What a conversion is about to do; bytes are 0 where the system does not tell.
struct ConvertPlan {
  int64_t samples = 0;
  double output_bytes = 0;   // of the file, if nothing is left out
  double working_bytes = 0;  // still needed, while both the file and what it is made from are there
  double free_bytes = 0;     // on the disk of the output
};

struct Quarantined {
  std::string name, reason;
};

struct ConvertSummary {
  int64_t found = 0, kept = 0, beyond_range = 0, unlisted = 0, resumed = 0;
  int64_t groups = 0;
  data::Schema schema;
  double mean_rows = 0;                                  // of the inputs, where their size varies
  std::map<std::string, int64_t> splits;                 // samples by split
  std::vector<std::pair<std::string, int64_t>> classes;  // samples by class
  int64_t repeated = 0;                  // samples outside the training split that equal, byte for byte, one inside it
  std::vector<Quarantined> quarantined;  // in the order of names
  std::vector<std::string> straddling_groups;  // on both sides of the given lists
  std::filesystem::path quarantine_file;       // empty if nothing was quarantined
  double seconds = 0;
};

std::filesystem::path partial_folder(const std::filesystem::path& out);  // of a conversion that can go on

// `begin` is called once, before anything is written and also where the room does not suffice. `progress` is called on
// the calling thread several times a second and at the end of each stage (listing, reading, writing); what it throws
// ends the conversion, which can be resumed.
ConvertSummary convert(const std::string& name, const ConvertOptions&, const ReportProgress& progress = {},
                       const std::function<void(const ConvertPlan&)>& begin = {});

}  // namespace dtrain::convert

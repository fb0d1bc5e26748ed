#pragma once

// A published data set's folder -> one dtrain HDF5 file (docs/file_formats.md), ready to train: pictures cropped to the
// head and scaled, labels yaw, pitch, roll in degrees, splits without a photo or person on both sides.
//
// Parallel over samples; the result does not depend on the number of threads. A killed conversion goes on where it was
// (spool.h: OUT.partial/). Damaged samples are left out and listed in OUT.quarantine.json with their reason.
// Errors: UsageError (no such converter), DataError (nothing usable, with the layout that was expected), OutputError
// (OUT exists and `force` is false, not writable, disk full; what was done is kept).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/convert/assign_splits.h"

namespace dtrain::data {

struct ConvertOptions {
  std::filesystem::path folder;
  std::filesystem::path out;
  int size = 224;      // side of the stored pictures in pixels
  int threads = 0;     // 0: as many as the cores this process may use
  bool force = false;  // replace an existing file
  SplitOptions split;
  std::vector<std::string> test_sequences;  // biwi; empty: kBiwiTestSequences
};

struct ConvertProgress {
  int64_t done = 0, total = 0;  // samples
  int64_t resumed = 0;          // of `done`, from an earlier, interrupted conversion
  double seconds = 0;           // since the start of this conversion
};

struct Quarantined {
  std::string name, reason;
};

struct ConvertSummary {
  int64_t found = 0, kept = 0, beyond_range = 0, unlisted = 0, resumed = 0;
  int64_t groups = 0;
  std::map<std::string, int64_t> splits;       // samples by split
  std::vector<Quarantined> quarantined;        // in the order of names
  std::vector<std::string> straddling_groups;  // on both sides of the given lists
  std::filesystem::path quarantine_file;       // empty if nothing was quarantined
  double seconds = 0;
};

const std::vector<std::string>& converter_names();  // 300wlp, aflw2000, biwi

// `progress` is called on the calling thread several times a second and at the end of the reading; what it throws ends
// the conversion, which can be resumed.
ConvertSummary convert(const std::string& name, const ConvertOptions&,
                       const std::function<void(const ConvertProgress&)>& progress = {});

}  // namespace dtrain::data

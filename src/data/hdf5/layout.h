#pragma once

// Where the bytes of a dtrain HDF5 file are. This is all that the HDF5 library is needed for. Layout is plain data, so
// that probe() could run in a child process (a malicious file can crash the HDF5 library) and send its result back.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/schema.h"

namespace dtrain::data {

struct Extent {
  int64_t offset = 0;  // bytes from the start of the file
  int64_t bytes = 0;
};

struct Layout {
  std::filesystem::path file;
  int64_t file_bytes = 0;
  Schema schema;
  Extent inputs, targets;                // variable size: of the dataset `values`
  Extent input_offsets, target_offsets;  // variable size only
  Extent checksums, group, source_bytes, source_offsets;
  std::map<std::string, Extent> splits;
  std::map<std::string, std::string> attributes;  // scalars of the root group, as text
  uint64_t index_checksum = 0;                    // see index_checksum() below
};

// Opens the file with the HDF5 library, checks everything that does not require reading samples, and closes it. Throws
// DataError if the file is missing, is not HDF5, was not written by dtrain, has another version or is truncated, or if
// a dataset has the wrong type, shape, count or storage (it must be contiguous, inside this file and hard-linked).
Layout probe(const std::filesystem::path& file);

// Chained xxh64 (the first seed is 0, each result seeds the next) of: source bytes; source offsets; groups; name and
// ids of each split, sorted by name; offsets of the inputs and of the targets (empty, and skipped, if they have a fixed
// size). Integers are int64, little endian.
uint64_t index_checksum(const std::string& source_bytes, const std::vector<int64_t>& source_offsets,
                        const std::vector<int64_t>& group, const std::map<std::string, std::vector<int64_t>>& splits,
                        const std::vector<int64_t>& input_offsets, const std::vector<int64_t>& target_offsets);

std::string hdf5_version();  // version of the HDF5 library, such as "1.10.8"

inline constexpr int64_t kFormatVersion = 1;

}  // namespace dtrain::data

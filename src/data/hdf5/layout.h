#pragma once

// Where the bytes of a dtrain HDF5 file lie: all that the HDF5 library is needed for. Plain data, so that a probe may
// run in a process of its own (a hostile file can crash the HDF5 library) and hand its answer to the one that trains.

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
  Extent inputs, targets;                // of variable size: of `values`
  Extent input_offsets, target_offsets;  // of variable size only
  Extent checksums, group, source_bytes, source_offsets;
  std::map<std::string, Extent> splits;
  std::map<std::string, std::string> attributes;  // of the root, scalars as text
  uint64_t index_checksum = 0;                    // of splits, groups and sources, see index_checksum() below
};

// Opens the file with the HDF5 library, checks all that can be checked without reading samples, and closes it again.
// Throws DataError: not there, not HDF5, not dtrain's, of another version, truncated, or with a dataset of a wrong
// type, shape, storage (only contiguous, inside this file, reached by hard links) or count.
Layout probe(const std::filesystem::path& file);

// xxh64 chained (each result seeds the next, the first seed is 0) over: source bytes, source offsets, groups, and for
// each split in the order of names its name and its ids, then the offsets of inputs and of targets where they are of
// variable size (else empty); integers as int64 little endian.
uint64_t index_checksum(const std::string& source_bytes, const std::vector<int64_t>& source_offsets,
                        const std::vector<int64_t>& group, const std::map<std::string, std::vector<int64_t>>& splits,
                        const std::vector<int64_t>& input_offsets, const std::vector<int64_t>& target_offsets);

std::string hdf5_version();  // of the HDF5 library that reads and writes: "1.10.8"

inline constexpr int64_t kFormatVersion = 1;

}  // namespace dtrain::data

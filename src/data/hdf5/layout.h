#pragma once

// Where the bytes of a dtrain HDF5 file are. This is all that the HDF5 library is needed for.
// Layout is plain data, so that a process which a malicious file may crash can send it to the one
// that trains (probe_process.h).

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/attributes.h"
#include "data/schema.h"

struct stat;

namespace dtrain::data {

struct Extent {
  int64_t offset = 0;  // bytes from the start of the file
  int64_t bytes = 0;
  bool operator==(const Extent&) const = default;
};

// What tells a file from another at the same path, and from itself before a change.
struct FileIdentity {
  int64_t device = 0, inode = 0, bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity identity_of(const struct stat&);

struct Layout {
  std::filesystem::path file;
  FileIdentity identity;
  Schema schema;
  Extent inputs, targets;                // variable size: of the dataset `values`
  Extent input_offsets, target_offsets;  // variable size only
  Extent checksums, group, source_bytes, source_offsets;
  std::map<std::string, Extent> splits;
  Attributes attributes;  // stored in the root group
  // Names of attributes that are neither text nor a single number
  std::vector<std::string> other_attributes;
  // Chained xxh64 (the first seed is 0, each result seeds the next) of: source bytes; source
  // offsets; groups; name and ids of each split, sorted by name; offsets of the inputs and of the
  // targets (skipped if they have a fixed size). Integers are int64, little endian.
  uint64_t index_checksum = 0;
};

// Opens the file with the HDF5 library, finds everything that a Layout holds, and closes it. Throws
// DataError if the file is missing, is not HDF5, was not written by dtrain or has another version,
// or if a dataset has the wrong type or storage (it must be contiguous, inside this file and
// hard-linked). A damaged file can also crash the library, or make it loop: programs call
// ProbeProcess::probe() instead, which does this in another process.
Layout probe(const std::filesystem::path& file);

// Throws DataError unless all parts of a layout agree with each other: every extent is inside the
// file and as long as the schema says, and the attributes are valid and match their checksum. Pure:
// it holds for a layout of any origin, and what passes is safe to read samples with.
void check(const Layout&);

std::string hdf5_version();  // version of the HDF5 library, such as "1.10.8"

inline constexpr int64_t kFormatVersion = 1;
inline constexpr const char* kSplitNames[] = {"train", "val", "test"};
std::string not_a_split(const std::string& name);  // ": /splits/NAME is not a split: ..."

}  // namespace dtrain::data

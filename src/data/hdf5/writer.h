#pragma once

// Writes a dtrain HDF5 file: contiguous datasets, allocated early, aligned to 4096 bytes,
// atomically (temporary name, fsync, rename). The number of samples, and of their rows, must be known; converters spool
// first. Errors: OutputError (full disk, not writable). Thread-safety: write() may be called from many threads for
// different ids.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/store.h"

namespace dtrain::data {

class Writer {
 public:
  // `schema.samples` etc. are fixed from here on; schema.checksum is computed by finish().
  // `input_rows`, `target_rows`: of each sample, where its size is variable; else empty.
  static std::unique_ptr<Writer> create(const std::filesystem::path& file, const Schema& schema,
                                        const std::vector<int64_t>& input_rows = {},
                                        const std::vector<int64_t>& target_rows = {});
  virtual ~Writer() = default;  // without finish(): the temporary file is removed
  virtual void write(int64_t id, std::span<const std::byte> input, std::span<const std::byte> target) = 0;

  struct Extras {
    std::map<std::string, std::vector<int64_t>> splits;  // by name
    std::vector<std::string> source;                     // one per sample
    std::vector<int64_t> group;                          // one per sample
    std::map<std::string, std::string> attributes;       // root attributes (text)
  };
  virtual void finish(const Extras&) = 0;  // makes the file appear under its name
};

}  // namespace dtrain::data

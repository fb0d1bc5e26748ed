#pragma once

// Writes a dtrain HDF5 file atomically: under a temporary name, then fsync and rename. Its datasets are contiguous,
// aligned to 4096 bytes, and their disk space is reserved first, so that a full disk is reported before hours of work.
// The number of samples and of their rows must be known in advance; converters therefore spool first.
//
// Errors: OutputError (full disk, not writable). Thread-safety: several threads may call write() at once, for different
// ids; all else from one thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/attributes.h"
#include "data/store.h"

namespace dtrain::data {

class Writer {
 public:
  // Reserves the file. schema.checksum is ignored: finish() computes it. `input_rows` and `target_rows` are the number
  // of rows of each sample if that field is variable, otherwise empty.
  static std::unique_ptr<Writer> create(const std::filesystem::path& file, const Schema& schema,
                                        const std::vector<int64_t>& input_rows = {},
                                        const std::vector<int64_t>& target_rows = {});
  virtual ~Writer() = default;  // removes the temporary file if finish() was not called
  virtual void write(int64_t id, std::span<const std::byte> input, std::span<const std::byte> target) = 0;

  struct Extras {
    std::map<std::string, std::vector<int64_t>> splits;  // sample ids by name: "train", "val", "test"
    std::vector<std::string> source;                     // one per sample
    std::vector<int64_t> group;                          // one per sample
    Attributes attributes;                               // of the root, besides those that the writer adds
  };
  // Completes the file and moves it to its final name. Requires: every sample was written, and text has no zero byte.
  virtual void finish(const Extras&) = 0;
};

}  // namespace dtrain::data

#pragma once

// Writes a dtrain HDF5 file atomically: under a temporary name, then fsync and rename. Its datasets
// are contiguous, aligned to 4096 bytes, and their disk space is reserved first, so that a full
// disk is reported before hours of work. The number of samples and of their rows must be known in
// advance; converters therefore spool first. What is known of each sample is written in pieces:
// memory does not grow with the samples, besides 1 byte for each.
//
// Errors: OutputError (full disk, not writable). Thread-safety: several threads may call write() at
// once, for different ids; all else from one thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/attributes.h"
#include "data/store.h"

namespace dtrain::data {

// One value for each of `size` things, computed when it is asked for, in order.
template <typename T>
struct Column {
  int64_t size = 0;
  std::function<T(int64_t)> at{};
};

class Writer {
 public:
  // The number of rows of each sample if that field is variable. Each is called twice for all
  // samples, in order.
  struct RowCounts {
    std::function<int64_t(int64_t id)> input{}, target{};
  };
  // Reserves the file. schema.checksum is ignored: finish() computes it.
  static std::unique_ptr<Writer> create(const std::filesystem::path& file, const Schema& schema,
                                        const RowCounts&);
  // With the numbers of rows if that field is variable, otherwise empty.
  static std::unique_ptr<Writer> create(const std::filesystem::path& file, const Schema& schema,
                                        const std::vector<int64_t>& input_rows = {},
                                        const std::vector<int64_t>& target_rows = {});
  virtual ~Writer() = default;  // removes the temporary file if finish() was not called

  struct Sample {
    std::span<const std::byte> input, target;
  };
  // Samples that follow each other
  virtual void write(int64_t first, std::span<const Sample> samples) = 0;
  void write(int64_t id, std::span<const std::byte> input, std::span<const std::byte> target) {
    const Sample one{input, target};
    write(id, std::span(&one, 1));
  }

  struct Index {
    std::map<std::string, Column<int64_t>> splits{};  // sample ids by name: "train", "val", "test"
    Column<std::string> source{};                     // one per sample
    Column<int64_t> group{};                          // one per sample
    Attributes attributes{};  // for the root, besides those that the writer adds
  };
  // Completes the file and moves it to its final name. Requires: every sample was written, and text
  // has no zero byte.
  virtual void finish(const Index&) = 0;

  struct Extras {  // an Index in memory
    std::map<std::string, std::vector<int64_t>> splits;
    std::vector<std::string> source;
    std::vector<int64_t> group;
    Attributes attributes;
  };
  void finish(const Extras&);
};

}  // namespace dtrain::data

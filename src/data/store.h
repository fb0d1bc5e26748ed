#pragma once

// Read access to the bytes of the samples of a data set by id: a dtrain file (hdf5/file_store.h),
// or raw files that are decoded on each read (convert/files_store.h). Ids are 0 to schema().samples
// - 1; any other id is a bug (Error).
//
// Errors: DataError that names file, dataset and sample.
// Thread-safety: all const methods may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/parallel.h"
#include "data/origin.h"
#include "data/schema.h"

namespace dtrain::data {

class Store {
 public:
  virtual ~Store() = default;

  virtual const Schema& schema() const = 0;
  virtual const Origin& origin() const = 0;  // where the samples come from
  // 1 for samples of fixed size; does not read the file
  virtual int64_t input_rows(int64_t id) const = 0;
  virtual int64_t target_rows(int64_t id) const = 0;
  int64_t input_bytes(int64_t id) const { return input_rows(id) * schema().input.row_bytes(); }
  int64_t target_bytes(int64_t id) const { return target_rows(id) * schema().target.row_bytes(); }
  // Read the bytes of sample `id` as stored. Require: out.size() is input_bytes(id)
  // or target_bytes(id).
  virtual void read_input(int64_t id, std::span<std::byte> out) const = 0;
  virtual void read_target(int64_t id, std::span<std::byte> out) const = 0;
  virtual uint64_t checksum(int64_t id) const = 0;  // stored sample_checksum()
  // Reads the whole file on all cores and compares the checksums of each sample, of all samples and
  // of the index. Throws DataError that names the first bad sample and the number of bad samples.
  virtual void verify(const ReportProgress& report = {}) const = 0;
};

// The values of one sample. Requires: T is the stored element type (float, int64_t or uint8_t).
template <typename T>
std::vector<T> read_input_as(const Store&, int64_t id);
template <typename T>
std::vector<T> read_target_as(const Store&, int64_t id);

// The checksum of one sample: xxh64 of the target's bytes, seeded with the xxh64 of the
// input's bytes.
uint64_t sample_checksum(std::span<const std::byte> input, std::span<const std::byte> target);
// That of sample `id` as it is read now, for stores that keep no checksums.
uint64_t checksum_as_read(const Store&, int64_t id);

// Number of rows of a sample's input, as in Batch::lengths: the first dimension of [rows, F] and
// [T, F], otherwise 1.
int64_t length_of(const Store&, int64_t id);

// The `count` of `ids` with the largest inputs, or all if there are fewer; the largest first.
std::vector<int64_t> largest_samples(const Store&, std::span<const int64_t> ids, int64_t count);

}  // namespace dtrain::data

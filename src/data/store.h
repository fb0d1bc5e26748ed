#pragma once

// The samples of a data set by id: the interface between what holds them (a dtrain file: hdf5/file_store.h; raw files:
// convert/files_store.h) and what reads them. Errors: DataError naming file, dataset and sample. Thread-safety: all
// const methods may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/schema.h"

namespace dtrain::data {

class Store {
 public:
  virtual ~Store() = default;

  virtual const Schema& schema() const = 0;
  virtual const std::filesystem::path& path() const = 0;
  virtual int64_t input_rows(int64_t id) const = 0;  // 1 for samples of fixed size; no read of the file
  virtual int64_t target_rows(int64_t id) const = 0;
  int64_t input_bytes(int64_t id) const { return input_rows(id) * schema().input.row_bytes(); }
  int64_t target_bytes(int64_t id) const { return target_rows(id) * schema().target.row_bytes(); }
  // Bytes of sample `id` as stored. `out.size()` must be input_bytes(id), target_bytes(id).
  virtual void read_input(int64_t id, std::span<std::byte> out) const = 0;
  virtual void read_target(int64_t id, std::span<std::byte> out) const = 0;
  virtual uint64_t checksum(int64_t id) const = 0;                        // sample_checksum() as stored
  virtual std::vector<int64_t> split(const std::string& name) const = 0;  // "train" | "val" | "test"; empty if absent
  virtual std::string name(int64_t id) const;                             // for messages: FILE#id
  virtual std::string source(int64_t id) const = 0;  // provenance: path relative to the converted folder
  virtual int64_t group(int64_t id) const = 0;       // samples of one photo or subject share a group
  virtual std::string attribute(const std::string& name) const = 0;  // root attribute as text; "" if absent
  // Reads everything, with all cores, and compares each sample's checksum, the whole's and the index's. Throws
  // DataError naming the first bad sample and how many there are.
  virtual void verify() const = 0;
};

// The values of one sample. T must be what is stored: float, int64_t or uint8_t.
template <typename T>
std::vector<T> read_input_as(const Store&, int64_t id);
template <typename T>
std::vector<T> read_target_as(const Store&, int64_t id);

// Of one sample: xxh64 of the input's bytes, which seeds the xxh64 of the target's bytes.
uint64_t sample_checksum(std::span<const std::byte> input, std::span<const std::byte> target);

// Rows of a sample's input, as Batch::lengths counts them: the first dimension of [rows, F] and [T, F], else 1.
int64_t length_of(const Store&, int64_t id);

std::vector<std::string> class_names(const Store&);  // empty if the file has none

}  // namespace dtrain::data

#pragma once

// An open dtrain HDF5 file (docs/file_formats.md). The HDF5 library only opens it: it says where the bytes of the
// datasets lie, and samples are read with pread at those offsets, from any number of threads without its lock.
// Errors: DataError naming file, dataset and sample. A file without `format = dtrain` is refused with a pointer to
// `dtrain convert`. Thread-safety: all const methods may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtrain::data {

struct Layout;  // data/layout.h

enum class Element { kUint8, kFloat32, kInt64 };
int64_t size_of(Element);  // bytes
std::string name_of(Element);

// A first dimension of kVariable: samples differ in their number of rows.
inline constexpr int64_t kVariable = -1;

// The input or the target of one sample, C order, little endian.
struct Field {
  Element element = Element::kUint8;
  // {H, W, 3} image; {kVariable, F} sequence or set; {T} fixed targets; {} one number (a class); {kVariable} an order
  std::vector<int64_t> shape;
  bool variable() const { return !shape.empty() && shape[0] == kVariable; }
  int64_t row_elements() const;  // variable: of one row; fixed: of the whole sample
  int64_t row_bytes() const;
  bool operator==(const Field&) const = default;
};

std::string text_of(const Field&);  // "float32 [rows, 8]"

// What a file may hold. Inputs: uint8 {H, W, 3}; float32 {F}, {T, F} or {kVariable, F}. Targets: float32 or int64 {} or
// {T}; int64 {kVariable}. No dimension is 0.
bool storable_input(const Field&);
bool storable_target(const Field&);

struct Schema {
  std::string task;
  Field input, target;
  int64_t samples = 0;
  uint64_t checksum = 0;  // of the whole file's samples: identifies the data set
};

class Store {
 public:
  static std::unique_ptr<Store> open(const std::filesystem::path& file);  // probe() in this process, then the next
  static std::unique_ptr<Store> open(const Layout& layout);               // without the HDF5 library
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
  virtual uint64_t checksum(int64_t id) const = 0;                        // xxh64 of input bytes, then target bytes
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

std::vector<std::string> class_names(const Store&);  // empty if the file has none

// What a run uses. Without a training split: all samples that are in no other one. Without a validation split:
// round(share x groups) of the training split's groups, at least one and not all (none if share is 0 or there is one
// group only), chosen by key, so that no group is on both sides. Ids keep their order in the file's splits.
struct Splits {
  std::vector<int64_t> train, val, test;
};
Splits splits(const Store&, double val_share, uint64_t seed);
uint64_t checksum(const Splits&);  // equal for equal ids in equal order and of equal use

}  // namespace dtrain::data

#pragma once

// NumPy's .npy files (versions 1, 2 and 3; numpy.lib.format describes them): bool, integers of 1 to 8 bytes and floats
// of 2, 4 and 8 bytes, in either byte order, in C or Fortran order. Nothing is believed before it is checked: a header
// that announces more, or less, than the file holds is an error, and no memory is taken for what is not there. Files
// with Python objects are refused, never unpickled: to load them is to run code.
// Errors: DataError with the reason, without the file's name. Thread-safety: all functions may be called from any
// thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace dtrain::data {

struct NpyHeader {
  enum class Kind { kBool, kInteger, kUnsigned, kFloat };
  Kind kind = Kind::kFloat;
  int item_bytes = 4;
  bool big_endian = false, fortran = false;
  std::vector<int64_t> shape;  // {}: one number
  uint64_t data_offset = 0;    // of the first element in the file

  int64_t elements() const;
  std::string type() const;        // "float32", "uint8", "bool"
  std::string shape_text() const;  // "[120, 6]"
};

// `begin` must hold the whole header (kNpyHeaderBytes are always enough); `file_bytes` is the length of the file.
NpyHeader parse_npy_header(std::span<const std::byte> begin, uint64_t file_bytes);
inline constexpr uint64_t kNpyHeaderBytes = 65536 + 12;  // longer ones are damage: numpy itself writes 128 bytes

struct NpyArray {
  NpyHeader header;
  std::vector<std::byte> file;  // all its bytes

  // The elements in C order. Floats are rounded to the nearest; float64 beyond float32's range becomes infinite.
  std::vector<float> to_float32() const;
  // Throws DataError for floats that are no whole numbers and for what does not fit.
  std::vector<int64_t> to_int64() const;
};

NpyArray parse_npy(std::vector<std::byte> file);
NpyArray read_npy(const std::filesystem::path& file);
NpyHeader read_npy_header(const std::filesystem::path& file);  // reads no more than the header

// .npy bytes of a C-order array, little endian, version 1. `shape`'s product must be the number of elements.
std::vector<std::byte> to_npy(std::span<const float> values, const std::vector<int64_t>& shape);
std::vector<std::byte> to_npy(std::span<const int64_t> values, const std::vector<int64_t>& shape);

}  // namespace dtrain::data

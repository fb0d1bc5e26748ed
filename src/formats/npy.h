#pragma once

// Reads and writes NumPy's .npy files: bool, integers of 1 to 8 bytes and floats of 2, 4 and 8
// bytes, in either byte order, in C or Fortran order, and lists of strings. Memory is allocated
// only for data that the file really has (npy_header.h). Errors: DataError with the reason, without
// the file's name. Thread-safety: all functions may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "formats/npy_header.h"

namespace dtrain::formats {

struct NpyArray {
  NpyHeader header;
  std::vector<std::byte> file;  // all bytes of the file

  // The elements in C order, rounded to the nearest float32. A float64 beyond float32's range
  // becomes infinite.
  std::vector<float> to_float32() const { return to_float32(0, header.elements()); }
  // The elements in C order. Throws DataError for floats that are not whole numbers and for values
  // out of range.
  std::vector<int64_t> to_int64() const { return to_int64(0, header.elements()); }
  // The same for `count` elements from element `first`. Require: the array has them.
  std::vector<float> to_float32(int64_t first, int64_t count) const;
  std::vector<int64_t> to_int64(int64_t first, int64_t count) const;
  // Requires: header.type() is "uint8"
  std::vector<uint8_t> to_uint8(int64_t first, int64_t count) const;
};

NpyArray parse_npy(std::vector<std::byte> file);
// An array [n] of strings (NumPy's U and S) as UTF-8. Throws for any other array, and for text that
// is not UTF-8.
std::vector<std::string> parse_npy_text(std::span<const std::byte> file);
// Throws if the file is larger than kMostFileBytes
NpyArray read_npy(const std::filesystem::path& file);

// The bytes of a .npy file: C order, little endian, version 1. Requires: `values` has as many
// values as `shape` says.
std::vector<std::byte> to_npy(std::span<const float> values, const std::vector<int64_t>& shape);
std::vector<std::byte> to_npy(std::span<const int64_t> values, const std::vector<int64_t>& shape);

}  // namespace dtrain::formats

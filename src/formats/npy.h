#pragma once

// NumPy's .npy files: bool, integers of 1 to 8 bytes and floats of 2, 4 and 8 bytes, in either byte order, in C or
// Fortran order. No memory is taken for what is not there, see npy_header.h.
// Errors: DataError with the reason, without the file's name. Thread-safety: all functions may be called from any
// thread.

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
  std::vector<std::byte> file;  // all its bytes

  // The elements in C order. Floats are rounded to the nearest; float64 beyond float32's range becomes infinite.
  std::vector<float> to_float32() const;
  // Throws DataError for floats that are no whole numbers and for what does not fit.
  std::vector<int64_t> to_int64() const;
};

NpyArray parse_npy(std::vector<std::byte> file);
NpyArray read_npy(const std::filesystem::path& file);  // throws beyond kMostFileBytes of read_file.h

// .npy bytes of a C-order array, little endian, version 1. `shape`'s product must be the number of elements.
std::vector<std::byte> to_npy(std::span<const float> values, const std::vector<int64_t>& shape);
std::vector<std::byte> to_npy(std::span<const int64_t> values, const std::vector<int64_t>& shape);

}  // namespace dtrain::formats

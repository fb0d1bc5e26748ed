#pragma once

// The header of a .npy file (versions 1, 2 and 3, as described in numpy.lib.format): element type,
// shape and data offset. Headers are not trusted: one that declares more or less data than the file
// has is an error. Arrays of Python objects are refused, because loading them can run code. Errors:
// DataError with the reason, without the file's name. Thread-safety: pure functions.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace dtrain::formats {

struct NpyHeader {
  // kUnicode, kBytes: strings of a fixed length
  enum class Kind { kBool, kInteger, kUnsigned, kFloat, kUnicode, kBytes };
  Kind kind = Kind::kFloat;
  int item_bytes = 4;
  bool big_endian = false, fortran = false;
  std::vector<int64_t> shape;  // {}: one number
  uint64_t data_offset = 0;    // byte offset of the first element

  int64_t elements() const;
  uint64_t file_bytes() const;     // header and elements
  std::string type() const;        // "float32", "uint8", "bool", "text"
  std::string shape_text() const;  // "[120, 6]"
};

// Parses the header of an array of numbers, or of one of strings; an array of the other kind is an
// error. Requires: `begin` contains the whole header (kNpyHeaderBytes are always enough). The
// second form also throws if the file does not have the size that the header declares.
enum class NpyElements { kNumbers, kText };
NpyHeader parse_npy_header(std::span<const std::byte> begin, NpyElements = NpyElements::kNumbers);
NpyHeader parse_npy_header(std::span<const std::byte> begin, uint64_t file_bytes,
                           NpyElements = NpyElements::kNumbers);
// A longer header is damaged: NumPy writes 128 bytes
inline constexpr uint64_t kNpyHeaderBytes = 65536 + 12;

// Reads only the beginning of the file
NpyHeader read_npy_header(const std::filesystem::path& file);

// The bytes before the elements of a C-order array, version 1. `type` is NumPy's name, such
// as "<f4".
std::string npy_header(const char* type, const std::vector<int64_t>& shape);

}  // namespace dtrain::formats

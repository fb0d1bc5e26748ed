#pragma once

// The header of a .npy file (versions 1, 2 and 3; numpy.lib.format describes them): which numbers it holds, in which
// shape, and where. Nothing is believed before it is checked: a header that announces more, or less, than the file
// holds is an error. Arrays of Python objects are refused: to load them is to run code. Errors: DataError with the
// reason, without the file's name. Thread-safety: pure functions.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace dtrain::formats {

struct NpyHeader {
  enum class Kind { kBool, kInteger, kUnsigned, kFloat };
  Kind kind = Kind::kFloat;
  int item_bytes = 4;
  bool big_endian = false, fortran = false;
  std::vector<int64_t> shape;  // {}: one number
  uint64_t data_offset = 0;    // of the first element in the file

  int64_t elements() const;
  uint64_t file_bytes() const;     // header and elements
  std::string type() const;        // "float32", "uint8", "bool"
  std::string shape_text() const;  // "[120, 6]"
};

// `begin` must hold the whole header (kNpyHeaderBytes are always enough). With `file_bytes`, the length of the file, it
// is an error too if that is not what the header announces.
NpyHeader parse_npy_header(std::span<const std::byte> begin);
NpyHeader parse_npy_header(std::span<const std::byte> begin, uint64_t file_bytes);
inline constexpr uint64_t kNpyHeaderBytes = 65536 + 12;  // longer ones are damage: numpy itself writes 128 bytes

NpyHeader read_npy_header(const std::filesystem::path& file);  // reads no more than the header

// What stands before the elements of a C-order array, as bytes, version 1. `type` as NumPy writes it: "<f4".
std::string npy_header(const char* type, const std::vector<int64_t>& shape);

}  // namespace dtrain::formats

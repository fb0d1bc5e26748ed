#pragma once

// The header of a safetensors file, parsed without trust: 8 bytes of length (little endian), then JSON of that length,
// then the tensors' bytes without holes. Knows no torch, so that it can be fuzzed alone. Errors: CheckpointError naming
// the file, the tensor and the fault. Thread-safety: pure functions.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::checkpoint {

struct TensorEntry {
  std::string name;
  std::string dtype;            // as in the file: F32, BF16, ...
  std::vector<int64_t> shape;   // the number of elements fits int64
  uint64_t begin = 0, end = 0;  // bytes after the header
};

struct SafetensorsHeader {
  uint64_t data_start = 0;           // in the file
  std::vector<TensorEntry> tensors;  // in the order of the header
  std::map<std::string, std::string> metadata;
};

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

// 0 for a name that this program does not know.
int64_t dtype_bytes(std::string_view dtype);

// The length of the JSON from the first 8 bytes (fewer if the file is shorter), checked against the file's size.
uint64_t header_length(std::span<const std::byte> first8, uint64_t file_bytes, const std::string& file);

// `json` is the header without its length; `data_bytes` what the file has after it. Every rule of the format is
// checked: the tensors fill the data exactly, without overlap, and each has the bytes that its shape and dtype need.
SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, const std::string& file);

SafetensorsHeader read_header(const std::filesystem::path&);  // of a file; no tensor is read
void read_exactly(std::istream& in, uint64_t position, std::span<std::byte> out, const std::string& file);

}  // namespace dtrain::checkpoint

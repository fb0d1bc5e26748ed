#pragma once

// The header of a safetensors file of unknown origin. A file is 8 bytes of length (little endian),
// JSON of that length, then the tensors' bytes without holes. Independent of torch, so that it can
// be fuzzed alone.
// Errors: CheckpointError with the file, the tensor and the fault. Thread-safety: pure functions.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/file_descriptor.h"

namespace dtrain::checkpoint {

struct TensorEntry {
  std::string name;
  std::string dtype;            // spelling in the file: F32, BF16, ...
  std::vector<int64_t> shape;   // the number of elements fits int64
  uint64_t begin = 0, end = 0;  // bytes after the header
};

struct SafetensorsHeader {
  uint64_t data_start = 0;           // byte offset in the file
  std::vector<TensorEntry> tensors;  // same order as in the header
  std::map<std::string, std::string> metadata;
};

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

// The size of an element; 0 for a dtype that dtrain does not know.
int64_t dtype_bytes(std::string_view dtype);

// The length of the JSON, from the first 8 bytes of the file (all of them if it is shorter).
// Checked against the file's size.
uint64_t header_length(std::span<const std::byte> first8, uint64_t file_bytes,
                       const std::string& file);

// `json` is the header without its length, and `data_bytes` the size of what follows it in the
// file. Checks every rule of the format: the tensors fill the data exactly, without overlap, and
// each has the bytes that its shape and dtype need. Takes memory for some copies of its longest
// string at most, beside the result.
SafetensorsHeader parse_header(std::string_view json, uint64_t data_bytes, const std::string& file);

SafetensorsHeader read_header(const std::filesystem::path&);  // reads no tensor

FileDescriptor open_safetensors(const std::filesystem::path&);
// Fills `out` with the bytes of the file that begin at `position`. `file` is its name for messages.
void read_exactly(const FileDescriptor& in, uint64_t position, std::span<std::byte> out,
                  const std::string& file);

}  // namespace dtrain::checkpoint

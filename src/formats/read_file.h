#pragma once

// Reads untrusted files, whole or only their beginning. Refuses pipes and folders, and allocates no
// more memory than the file has bytes. Errors: DataError with the reason; callers add the file's
// name. Thread-safety: all functions may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace dtrain::formats {

// Limit for the file of one sample. A larger file is not a usable photo or sequence, and could use
// up all memory.
inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;
void check_file_bytes(uint64_t bytes, uint64_t most = kMostFileBytes);  // throws if it is more

// Throws if it is larger than kMostFileBytes
std::vector<std::byte> read_file(const std::filesystem::path& file);

struct FileBeginning {
  std::vector<std::byte> bytes;  // at most the requested number
  uint64_t file_bytes = 0;       // size of the whole file
};
FileBeginning read_beginning(const std::filesystem::path& file, uint64_t bytes);

}  // namespace dtrain::formats

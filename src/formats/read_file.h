#pragma once

// Whole files and their beginnings, for files of unknown origin: never a pipe or a folder, never more than is there.
// Errors: DataError with the reason; the message does not repeat the file's name, which the caller knows better.
// Thread-safety: all functions may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace dtrain::formats {

// One sample's file; a larger one is no photo and no sequence that could be trained on, and would take all memory.
inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;
void check_file_bytes(uint64_t bytes, uint64_t most = kMostFileBytes);  // throws

std::vector<std::byte> read_file(const std::filesystem::path& file);  // throws beyond kMostFileBytes

struct FileBeginning {
  std::vector<std::byte> bytes;  // at most as many as were asked for
  uint64_t file_bytes = 0;       // of the whole file
};
FileBeginning read_beginning(const std::filesystem::path& file, uint64_t bytes);

}  // namespace dtrain::formats

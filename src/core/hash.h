#pragma once

// The two hashes of dtrain's files: xxh64, which is fast, detects damage in data sets; SHA-256
// verifies checkpoints. Thread-safety: pure functions.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace dtrain {

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed = 0);
std::string sha256_hex(std::span<const std::byte> bytes);
// Throws Error when it cannot be read. `read` is called with the bytes of each piece, a MiB
// or less.
std::string sha256_hex_of_file(const std::filesystem::path& path,
                               const std::function<void(int64_t)>& read = {});

}  // namespace dtrain

#pragma once

// The two hashes of dtrain's files: xxh64, which is fast, detects damage in data sets; SHA-256
// verifies checkpoints. Thread-safety: any thread; a RunningHash one at a time.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

uint64_t xxh64(std::span<const std::byte> bytes, uint64_t seed = 0);
inline uint64_t xxh64(std::string_view text, uint64_t seed = 0) {
  return xxh64(std::as_bytes(std::span(text)), seed);
}
// xxh64() of bytes that come in pieces, without holding them.
class RunningHash {
 public:
  explicit RunningHash(uint64_t seed = 0);
  ~RunningHash();
  RunningHash(RunningHash&&) noexcept;
  RunningHash& operator=(RunningHash&&) noexcept;
  void add(std::span<const std::byte> bytes);
  uint64_t value() const;  // hash of all bytes added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::span<const std::byte> bytes);
// Throws Error when it cannot be read. `read` is called with the bytes of each piece, a MiB
// or less.
std::string sha256_hex_of_file(const std::filesystem::path& path,
                               const std::function<void(int64_t)>& read = {});

}  // namespace dtrain

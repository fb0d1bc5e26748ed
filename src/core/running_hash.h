#pragma once

// xxh64 of bytes that come in pieces: the value that xxh64() of hash.h has for all of them
// together, without holding them. Thread-safety: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace dtrain {

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

}  // namespace dtrain

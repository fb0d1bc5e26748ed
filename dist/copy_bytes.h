#pragma once

// memcpy for buffers in shared memory, whose lines other cores have in their caches. From 2 KiB on, glibc's memcpy uses
// `rep movsb`, which AMD's Zen 3 and 4 run several times slower for some distances between source and destination
// (glibc bug 30994), and equal offsets in the parts of two ranks are such a distance. Thread-safety: pure.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dtrain::dist {

// The two must not overlap.
inline void copy_bytes(void* to, const void* from, size_t bytes) {
  using Lanes [[gnu::vector_size(16)]] = uint64_t;
  constexpr size_t kLine = 64;
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  for (; bytes >= kLine; bytes -= kLine, out += kLine, in += kLine) {
    Lanes a, b, c, d;
    std::memcpy(&a, in, 16);
    std::memcpy(&b, in + 16, 16);
    std::memcpy(&c, in + 32, 16);
    std::memcpy(&d, in + 48, 16);
    std::memcpy(out, &a, 16);
    std::memcpy(out + 16, &b, 16);
    std::memcpy(out + 32, &c, 16);
    std::memcpy(out + 48, &d, 16);
    asm volatile("" : : : "memory");  // otherwise the compiler makes one call of memcpy of the loop
  }
  std::memcpy(out, in, bytes);
}

}  // namespace dtrain::dist

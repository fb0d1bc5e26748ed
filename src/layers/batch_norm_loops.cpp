// The same loops for each instruction set; which one is used is decided at the first call. GCC lowers vector types
// before it inlines, so a function and all its callees must be compiled for one target. Therefore the same code is
// included several times.

#include "layers/batch_norm_loops.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "core/host_device.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DTRAIN_X86_VECTORS
#include <immintrin.h>
#endif

namespace dtrain::layers::batch_norm {
namespace {

namespace any_cpu {
inline void stream_line(char* to, const char* from) { std::memcpy(to, from, 64); }
inline void end_of_stream() {}
#include "layers/batch_norm_body.inc"
#include "layers/batch_norm_loops.inc"
}  // namespace any_cpu

#ifdef DTRAIN_X86_VECTORS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
inline void stream_line(char* to, const char* from) {
  for (int i = 0; i < 64; i += 32) {
    __m256i half;
    std::memcpy(&half, from + i, sizeof(half));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), half);
  }
}
inline void end_of_stream() { _mm_sfence(); }
#include "layers/batch_norm_body.inc"
#include "layers/batch_norm_loops.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
namespace avx512 {
inline void stream_line(char* to, const char* from) {
  __m512i line;
  std::memcpy(&line, from, sizeof(line));
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
}
inline void end_of_stream() { _mm_sfence(); }
#include "layers/batch_norm_body.inc"
#include "layers/batch_norm_loops.inc"
}  // namespace avx512
#pragma GCC pop_options
#endif

std::atomic<int>& most_bits() {
  static std::atomic<int> bits = 512;
  return bits;
}

bool has_avx512() {
#ifdef DTRAIN_X86_VECTORS
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return has;
#else
  return false;
#endif
}

bool has_avx2() {
#ifdef DTRAIN_X86_VECTORS
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
#else
  return false;
#endif
}

}  // namespace

template <typename Store>
const Loops<Store>& loops() {
#ifdef DTRAIN_X86_VECTORS
  static constexpr Loops<Store> wide = avx512::table<Store>(), middle = avx2::table<Store>();
  const int most = most_bits();
  if (most >= 512 && has_avx512()) return wide;
  if (most >= 256 && has_avx2()) return middle;
#endif
  static constexpr Loops<Store> any = any_cpu::table<Store>();
  return any;
}
template const Loops<double>& loops<double>();
template const Loops<float>& loops<float>();
template const Loops<uint16_t>& loops<uint16_t>();

void limit_vectors(int bits) { most_bits() = bits; }

}  // namespace dtrain::layers::batch_norm

// The same loops for each instruction set; which one is used is decided at each call. GCC lowers vector types
// before it inlines, so a function and all its callees must be compiled for one target. Therefore the same code is
// included several times.

#include "layers/batch_norm_loops.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/host_device.h"
#include "core/vector_set.h"

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

}  // namespace

template <typename Store>
const Loops<Store>& loops() {
#ifdef DTRAIN_X86_VECTORS
  static constexpr Loops<Store> wide = avx512::table<Store>(), middle = avx2::table<Store>();
  const VectorSet vectors = widest_vectors();
  if (vectors == VectorSet::kAvx512) return wide;
  if (vectors == VectorSet::kAvx2) return middle;
#endif
  static constexpr Loops<Store> any = any_cpu::table<Store>();
  return any;
}
template const Loops<double>& loops<double>();
template const Loops<float>& loops<float>();
template const Loops<uint16_t>& loops<uint16_t>();

}  // namespace dtrain::layers::batch_norm

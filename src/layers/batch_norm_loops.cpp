// The same loops for each instruction set; which one is used is decided at each call. GCC lowers
// vector types before it inlines, so a function and all its callees must be compiled for one
// target. Therefore the same code is included several times.

#include "layers/batch_norm_loops.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/host_device.h"
#include "os/vector_set.h"

#ifdef DTRAIN_X86_VECTORS
#include <immintrin.h>
#endif

namespace dtrain::layers::batch_norm {
namespace {

namespace any_cpu {  // vectors of 16 bytes, which the compiler maps to SSE2, NEON or scalar code
constexpr int64_t kVectorBytes = 16;
typedef int32_t Ints __attribute__((vector_size(16)));
typedef uint8_t Bytes __attribute__((vector_size(4)));
inline void stream(char* to, const char* from) { std::memcpy(to, from, kVectorBytes); }
inline void end_of_stream() {}
inline Bytes bytes_of(Ints v) { return __builtin_convertvector(v, Bytes); }
inline Ints ints_of(Bytes v) { return __builtin_convertvector(v, Ints); }
#include "layers/batch_norm_body.inc"
#include "layers/batch_norm_loops.inc"
}  // namespace any_cpu

#ifdef DTRAIN_X86_VECTORS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int64_t kVectorBytes = 32;
typedef int32_t Ints __attribute__((vector_size(32)));
typedef uint8_t Bytes __attribute__((vector_size(8)));
inline void stream(char* to, const char* from) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline void end_of_stream() { _mm_sfence(); }
inline Bytes bytes_of(Ints v) {
  // The lowest bytes of four elements in the lowest four bytes of each half, then those side
  // by side.
  const __m256i order = _mm256_set1_epi32(0x0c080400);
  const __m256i halves = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(v), order);
  const __m128i both =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  const int64_t bytes = _mm_cvtsi128_si64(both);
  return reinterpret_cast<Bytes>(bytes);
}
inline Ints ints_of(Bytes v) {
  return reinterpret_cast<Ints>(
      _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(reinterpret_cast<int64_t>(v))));
}
#include "layers/batch_norm_body.inc"
#include "layers/batch_norm_loops.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
namespace avx512 {
constexpr int64_t kVectorBytes = 64;
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint8_t Bytes __attribute__((vector_size(16)));
inline void stream(char* to, const char* from) {
  __m512i line;
  std::memcpy(&line, from, sizeof(line));
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line);
}
inline void end_of_stream() { _mm_sfence(); }
inline Bytes bytes_of(Ints v) { return __builtin_convertvector(v, Bytes); }
inline Ints ints_of(Bytes v) { return __builtin_convertvector(v, Ints); }
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

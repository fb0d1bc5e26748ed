// The same loops for each instruction set; which one is used is decided at each call. GCC lowers vector types before
// it inlines, so a function and all its callees must be compiled for one target. Therefore the same code is included
// several times.

#include "layers/packed_matrix_loops.h"

#include <algorithm>
#include <cstring>

#include "core/vector_set.h"

namespace dtrain::layers {
namespace {

namespace any_cpu {  // vectors of four, which the compiler maps to SSE2, NEON or scalar code
constexpr int64_t kLanes = 4, kRows = 6;
typedef float Lanes __attribute__((vector_size(16)));
#include "layers/packed_matrix_loops.inc"
}  // namespace any_cpu

#ifdef DTRAIN_X86_VECTORS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int64_t kLanes = 8, kRows = 6;
typedef float Lanes __attribute__((vector_size(32)));
#include "layers/packed_matrix_loops.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
namespace avx512 {
constexpr int64_t kLanes = 16, kRows = 12;
typedef float Lanes __attribute__((vector_size(64)));
#include "layers/packed_matrix_loops.inc"
}  // namespace avx512
#pragma GCC pop_options
#endif

}  // namespace

const MatrixLoops& matrix_loops() {
#ifdef DTRAIN_X86_VECTORS
  static constexpr MatrixLoops wide = {avx512::kTile, avx512::multiply}, middle = {avx2::kTile, avx2::multiply};
  const VectorSet vectors = widest_vectors();
  if (vectors == VectorSet::kAvx512) return wide;
  if (vectors == VectorSet::kAvx2) return middle;
#endif
  static constexpr MatrixLoops any = {any_cpu::kTile, any_cpu::multiply};
  return any;
}

}  // namespace dtrain::layers

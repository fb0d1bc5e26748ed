// The same loops for each instruction set; which one is used is decided at each call. GCC lowers vector types before
// it inlines, so a function and all its callees must be compiled for one target. Therefore the same code is included
// several times.

#include "layers/convolution_loops.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/vector_set.h"

namespace dtrain::layers::convolution {
namespace {

namespace any_cpu {
constexpr int64_t kLanes = 4, kRows = 6;
typedef float Lanes __attribute__((vector_size(16)));
#include "layers/convolution_loops.inc"
}  // namespace any_cpu

#ifdef DTRAIN_X86_VECTORS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int64_t kLanes = 8, kRows = 6;
typedef float Lanes __attribute__((vector_size(32)));
#include "layers/convolution_loops.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
namespace avx512 {
constexpr int64_t kLanes = 16, kRows = 12;
typedef float Lanes __attribute__((vector_size(64)));
#include "layers/convolution_loops.inc"
}  // namespace avx512
#pragma GCC pop_options
#endif

struct Loops {
  decltype(&any_cpu::add_weight_gradient) add_weight_gradient;
  int64_t tile_width;
};

Loops loops() {
#ifdef DTRAIN_X86_VECTORS
  const VectorSet vectors = widest_vectors();
  if (vectors == VectorSet::kAvx512) return {avx512::add_weight_gradient, avx512::kTile};
  if (vectors == VectorSet::kAvx2) return {avx2::add_weight_gradient, avx2::kTile};
#endif
  return {any_cpu::add_weight_gradient, any_cpu::kTile};
}

}  // namespace

int64_t tile_width() { return loops().tile_width; }

void add_weight_gradient(const Shape& shape, const float* x, const float* dy, int64_t begin, int64_t end, int64_t tile,
                         int64_t tile_end, float* sums, double* bias) {
  loops().add_weight_gradient(shape, x, dy, begin, end, tile, tile_end, sums, bias);
}

}  // namespace dtrain::layers::convolution

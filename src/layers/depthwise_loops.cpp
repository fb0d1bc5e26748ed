// The same loops for each instruction set; which one is used is decided at each call. GCC lowers vector types before
// it inlines, so a function and all its callees must be compiled for one target. Therefore the same code is included
// several times.

#include "layers/depthwise_loops.h"

#include <cstring>

#include "core/vector_set.h"

namespace dtrain::layers::depthwise {
namespace {

namespace any_cpu {
constexpr int64_t kLanes = 4;
typedef float Lanes __attribute__((vector_size(16)));
#include "layers/depthwise_loops.inc"
}  // namespace any_cpu

#ifdef DTRAIN_X86_VECTORS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr int64_t kLanes = 8;
typedef float Lanes __attribute__((vector_size(32)));
#include "layers/depthwise_loops.inc"
}  // namespace avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
namespace avx512 {
constexpr int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(64)));
#include "layers/depthwise_loops.inc"
}  // namespace avx512
#pragma GCC pop_options
#endif

struct Loops {
  decltype(&any_cpu::convolve) convolve;
  decltype(&any_cpu::spread) spread;
  decltype(&any_cpu::add_weight_gradient) add_weight_gradient;
};

Loops loops() {
#ifdef DTRAIN_X86_VECTORS
  const VectorSet vectors = widest_vectors();
  if (vectors == VectorSet::kAvx512) return {avx512::convolve, avx512::spread, avx512::add_weight_gradient};
  if (vectors == VectorSet::kAvx2) return {avx2::convolve, avx2::spread, avx2::add_weight_gradient};
#endif
  return {any_cpu::convolve, any_cpu::spread, any_cpu::add_weight_gradient};
}

}  // namespace

void convolve(const Shape& shape, const float* x, const float* weights, const float* zeros, int64_t begin, int64_t end,
              float* y) {
  loops().convolve(shape, x, weights, zeros, begin, end, y);
}

void spread(const Shape& shape, const float* dy, const float* weights, const float* zeros, int64_t begin, int64_t end,
            float* dx) {
  loops().spread(shape, dy, weights, zeros, begin, end, dx);
}

void add_weight_gradient(const Shape& shape, const float* x, const float* dy, const float* zeros, int64_t begin,
                         int64_t end, float* dw) {
  loops().add_weight_gradient(shape, x, dy, zeros, begin, end, dw);
}

}  // namespace dtrain::layers::depthwise

// The same loops for each instruction set; which one is used is decided at each call. GCC lowers vector types before
// it inlines, so a function and all its callees must be compiled for one target. Therefore the same code is included
// several times.

#include "layers/lstm_loops.h"

#include <cmath>
#include <cstring>

#include "core/vector_set.h"

namespace dtrain::layers {
namespace {

namespace one_double {
using Number = double;
using Lanes = double;
constexpr int64_t kLanes = 1;
inline double exponential(double x) { return std::exp(x); }
#include "layers/lstm_loops.inc"
}  // namespace one_double

namespace any_float {  // vectors of four, which the compiler maps to SSE2, NEON or scalar code
using Number = float;
constexpr int64_t kLanes = 4;
typedef float Lanes __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));
#include "layers/lstm_exponential.inc"
#include "layers/lstm_loops.inc"
}  // namespace any_float

#ifdef DTRAIN_X86_VECTORS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2_float {
using Number = float;
constexpr int64_t kLanes = 8;
typedef float Lanes __attribute__((vector_size(32)));
typedef int32_t Ints __attribute__((vector_size(32)));
#include "layers/lstm_exponential.inc"
#include "layers/lstm_loops.inc"
}  // namespace avx2_float
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
namespace avx512_float {
using Number = float;
constexpr int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
#include "layers/lstm_exponential.inc"
#include "layers/lstm_loops.inc"
}  // namespace avx512_float
#pragma GCC pop_options
#endif

}  // namespace

template <>
void compute_lstm_step(const LstmStep<double>& step, int64_t begin, int64_t end) {
  one_double::compute(step, begin, end);
}
template <>
void differentiate_lstm_step(const LstmStepGradient<double>& step, int64_t begin, int64_t end) {
  one_double::differentiate(step, begin, end);
}

template <>
void compute_lstm_step(const LstmStep<float>& step, int64_t begin, int64_t end) {
#ifdef DTRAIN_X86_VECTORS
  const VectorSet vectors = widest_vectors();
  if (vectors == VectorSet::kAvx512) return avx512_float::compute(step, begin, end);
  if (vectors == VectorSet::kAvx2) return avx2_float::compute(step, begin, end);
#endif
  any_float::compute(step, begin, end);
}
template <>
void differentiate_lstm_step(const LstmStepGradient<float>& step, int64_t begin, int64_t end) {
#ifdef DTRAIN_X86_VECTORS
  const VectorSet vectors = widest_vectors();
  if (vectors == VectorSet::kAvx512) return avx512_float::differentiate(step, begin, end);
  if (vectors == VectorSet::kAvx2) return avx2_float::differentiate(step, begin, end);
#endif
  any_float::differentiate(step, begin, end);
}

}  // namespace dtrain::layers

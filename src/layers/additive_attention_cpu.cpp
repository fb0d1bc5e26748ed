// The same loops for each instruction set; which one is used is decided at each call. GCC lowers
// vector types before it inlines, so a function and all its callees must be compiled for one
// target. Therefore the same code is included several times.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "core/host_device.h"
#include "layers/additive_attention_kernels.h"
#include "layers/lengths.h"
#include "os/vector_set.h"

#ifdef DTRAIN_X86_VECTORS
#include <immintrin.h>
#endif

namespace dtrain::layers {
namespace {

struct Scratch {
  std::vector<int32_t> left;
  std::vector<float> floats;
  std::vector<double> doubles;
};
template <typename Number>
std::vector<Number>& scratch_numbers(Scratch& scratch) {
  if constexpr (std::is_same_v<Number, float>) {
    return scratch.floats;
  } else {
    return scratch.doubles;
  }
}

// The pairs (step, element) that have a gradient, by step. They are about half of all pairs,
// because chosen elements are not scored again.
template <typename Number>
struct Pairs {
  std::vector<int32_t> element;
  std::vector<Number> gradient;
  std::vector<size_t> ends;     // index after the last pair of each step
  std::vector<Number> columns;  // memory for aligned_columns()

  // Aligned to a cache line, which std::vector does not guarantee.
  Number* aligned_columns(int64_t count) {
    constexpr size_t kLine = 64;
    columns.resize(static_cast<size_t>(count) + kLine / sizeof(Number));
    const auto address = reinterpret_cast<uintptr_t>(columns.data());
    return reinterpret_cast<Number*>((address + kLine - 1) / kLine * kLine);
  }

  void collect(const Number* residual, int64_t steps, int64_t length, Number scale) {
    element.clear();
    gradient.clear();
    ends.clear();
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t j = 0; j < length; ++j) {
        if (residual[t * steps + j] == 0) continue;
        element.push_back(static_cast<int32_t>(j));
        gradient.push_back(scale * residual[t * steps + j]);
      }
      ends.push_back(element.size());
    }
  }
};

}  // namespace

namespace {
namespace one_double {
using Number = double;
using Lanes = double;
constexpr int64_t kLanes = 1;
inline Lanes load(const Number* from) { return *from; }
inline void store(Number* to, Lanes value) { *to = value; }
inline double reciprocal(double x) { return 1 / x; }
#include "layers/additive_attention_body.inc"
#include "layers/additive_attention_loops.inc"
}  // namespace one_double

namespace any_float {  // vectors of four, which the compiler maps to SSE2, NEON or scalar code
using Number = float;
constexpr int64_t kLanes = 4;
typedef float Lanes __attribute__((vector_size(16)));
inline Lanes load(const Number* from) {
  Lanes value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
inline void store(Number* to, Lanes value) { std::memcpy(to, &value, sizeof(value)); }
template <typename T>
inline T reciprocal(T x) {
  return 1 / x;
}
#include "layers/additive_attention_body.inc"
#include "layers/additive_attention_loops.inc"
}  // namespace any_float

#ifdef DTRAIN_X86_VECTORS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2_float {
using Number = float;
constexpr int64_t kLanes = 8;
typedef float Lanes __attribute__((vector_size(32)));
inline Lanes load(const Number* from) { return _mm256_loadu_ps(from); }
inline void store(Number* to, Lanes value) { _mm256_storeu_ps(to, value); }
inline float reciprocal(float x) { return 1 / x; }
inline Lanes reciprocal(Lanes x) {  // 12 bits and a Newton step
  const Lanes guess = _mm256_rcp_ps(x);
  return guess * (2.0f - x * guess);
}
#include "layers/additive_attention_body.inc"
#include "layers/additive_attention_loops.inc"
}  // namespace avx2_float
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,fma")
namespace avx512_float {
using Number = float;
constexpr int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(64)));
inline Lanes load(const Number* from) { return _mm512_loadu_ps(from); }
inline void store(Number* to, Lanes value) { _mm512_storeu_ps(to, value); }
inline float reciprocal(float x) { return 1 / x; }
inline Lanes reciprocal(Lanes x) {  // 14 bits and a Newton step
  const Lanes guess = _mm512_maskz_rcp14_ps(0xffff, x);
  return guess * (2.0f - x * guess);
}
#include "layers/additive_attention_body.inc"
#include "layers/additive_attention_loops.inc"
}  // namespace avx512_float
#pragma GCC pop_options
#endif

struct FloatLoops {
  decltype(&any_float::forward_samples) forward;
  decltype(&any_float::backward_samples) backward;
};

FloatLoops float_loops() {
#ifdef DTRAIN_X86_VECTORS
  const VectorSet vectors = widest_vectors();
  if (vectors == VectorSet::kAvx512)
    return {avx512_float::forward_samples, avx512_float::backward_samples};
  if (vectors == VectorSet::kAvx2)
    return {avx2_float::forward_samples, avx2_float::backward_samples};
#endif
  return {any_float::forward_samples, any_float::backward_samples};
}

}  // namespace

template <>
void attention_forward_on_cpu(const AttentionProblem<float>& p, int64_t begin, int64_t end,
                              float* residual, float* nll) {
  float_loops().forward(p, begin, end, residual, nll);
}
template <>
void attention_forward_on_cpu(const AttentionProblem<double>& p, int64_t begin, int64_t end,
                              double* residual, double* nll) {
  one_double::forward_samples(p, begin, end, residual, nll);
}
template <>
void attention_backward_on_cpu(const AttentionProblem<float>& p, int64_t begin, int64_t end,
                               const float* residual, const float* scale, float* keys,
                               float* queries, float* v) {
  float_loops().backward(p, begin, end, residual, scale, keys, queries, v);
}
template <>
void attention_backward_on_cpu(const AttentionProblem<double>& p, int64_t begin, int64_t end,
                               const double* residual, const double* scale, double* keys,
                               double* queries, double* v) {
  one_double::backward_samples(p, begin, end, residual, scale, keys, queries, v);
}

}  // namespace dtrain::layers

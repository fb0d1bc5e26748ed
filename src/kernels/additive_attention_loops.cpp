#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/host_device.h"
#include "kernels/additive_attention.h"
#include "kernels/lengths.h"
#include "kernels/vector_headers.h"
#include "text/strings.h"

namespace dtrain::kernels {
namespace {

template <typename Number>
struct AttentionLoops {
  void (*forward)(const AttentionProblem<Number>&, int64_t begin, int64_t end, Number* residual,
                  Number* nll);
  void (*backward)(const AttentionProblem<Number>&, int64_t begin, int64_t end,
                   const Number* residual, const Number* scale, Number* keys, Number* queries,
                   Number* v);
};

template <typename Number>
struct Scratch {
  std::vector<int32_t> left;
  std::vector<Number> scores;
};

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

namespace one_double {  // number by number
using Number = double;
using Lanes = Number;
constexpr int64_t kLanes = 1;
inline Lanes load(const double* from) { return *from; }
inline void store(double* to, Lanes value) { *to = value; }
#include "kernels/additive_attention_loops.inc"
}  // namespace one_double

using Loops = AttentionLoops<float>;
#define DTRAIN_LOOPS "kernels/additive_attention_loops.inc"
#include "kernels/vector_sets.inc"

}  // namespace

template <>
void attention_forward_on_cpu(const AttentionProblem<float>& p, int64_t begin, int64_t end,
                              float* residual, float* nll) {
  loops().forward(p, begin, end, residual, nll);
}
template <>
void attention_forward_on_cpu(const AttentionProblem<double>& p, int64_t begin, int64_t end,
                              double* residual, double* nll) {
  one_double::kLoops.forward(p, begin, end, residual, nll);
}
template <>
void attention_backward_on_cpu(const AttentionProblem<float>& p, int64_t begin, int64_t end,
                               const float* residual, const float* scale, float* keys,
                               float* queries, float* v) {
  loops().backward(p, begin, end, residual, scale, keys, queries, v);
}
template <>
void attention_backward_on_cpu(const AttentionProblem<double>& p, int64_t begin, int64_t end,
                               const double* residual, const double* scale, double* keys,
                               double* queries, double* v) {
  one_double::kLoops.backward(p, begin, end, residual, scale, keys, queries, v);
}

void check_fits_gpu(int64_t samples, int64_t steps, int64_t shared_bytes) {
  // Of a grid's second dimension; of a block
  constexpr int64_t kMostSamples = 65535, kMostShared = 48 << 10;
  if (samples > kMostSamples) {
    throw DeviceError(str("additive attention: a batch of ", samples, " sets is more than the ",
                          kMostSamples, " of a GPU; use a smaller --batch-size"));
  }
  if (shared_bytes > kMostShared) {
    throw DeviceError(
        str("additive attention: sets of ", steps, " elements do not fit the GPU's shared memory"));
  }
}

}  // namespace dtrain::kernels

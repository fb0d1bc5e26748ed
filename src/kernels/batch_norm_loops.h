#pragma once

// The innermost loops of batch norm on the CPU, chosen for its instruction set at each call. They
// run over contiguous memory; batch_norm_cpu.h takes care of threads, layouts and tensors.
//
// Store is the type in memory: double, float, or uint16_t for bfloat16. The arithmetic is in double
// for double, else in float; sums are double.
//
// Gain: see batch_norm_cpu.h.

#include <cstdint>
#include <type_traits>

#include "kernels/activation.h"

namespace dtrain::kernels::batch_norm {

template <typename Store>
using NumberOf = std::conditional_t<std::is_same_v<Store, double>, double, float>;

// The elements [begin, begin + count) of a tensor. Their coefficients repeat every `period`
// elements, which is a multiple of kLanes, the most elements of a vector, unless it is at
// least `count`.
struct ElementRun {
  int64_t begin, count, period;
};
constexpr int64_t kLanes = 16;

template <typename Number>
struct Coefficients {  // [period] each; a function uses those that its formula has
  const Number* mean = nullptr;
  const Number* scale = nullptr;  // weight / deviation
  const Number* bias = nullptr;
  const Number* slope = nullptr;  // see input_gradient_of() in batch_norm_body.inc
  const Number* shift = nullptr;
};

template <typename Store>
struct NormTensors {  // whole tensors
  const Store* x = nullptr;
  const Store* residual = nullptr;  // added before the activation; nullptr: none
  const Store* y = nullptr;         // the output; for the gradient if there was a residual
  const Store* dy = nullptr;
  Store* out = nullptr;
};

// A row of outputs of max-pooling of 2 x 2 with stride 2, channels last; an odd last column of x is
// left out.
struct PooledRow {
  int64_t channels, width;  // sizes of x
  int64_t x, y;  // the first element of the first of its two rows of x; the first of its outputs
};

template <typename Store>
struct NormLoops {
  using Number = NumberOf<Store>;
  // Adds the sums of x - origin and of its squares to sums[0, period) and sums[period, 2 period).
  void (*sums)(ElementRun, const Store* x, const Number* origin, double* sums);
  // out = activation(normalized x + residual)
  void (*normalize)(ElementRun, const Coefficients<Number>&, const NormTensors<Store>&, Activation);
  // Adds the sums of the gradient before the activation, and of its product with x - mean. Writes
  // that gradient to `out` if it is not null.
  void (*gradient_sums)(ElementRun, const Coefficients<Number>&, const NormTensors<Store>&,
                        Activation, double* sums);
  // out = the gradient of x. `dy` must be the gradient before the activation if there was
  // a residual.
  void (*input_gradient)(ElementRun, const Coefficients<Number>&, const NormTensors<Store>&,
                         Activation);

  // The same with max-pooling behind the activation. chosen [as y]: which of its four values an
  // output is, or 4 if its gradient is zero. The sums are [2][channels]. Without coefficients x is
  // not normalized.
  void (*pool)(const PooledRow&, const Coefficients<Number>&, const NormTensors<Store>&, Activation,
               uint8_t* chosen);
  void (*pool_gradient_sums)(const PooledRow&, const Coefficients<Number>&,
                             const NormTensors<Store>&, const uint8_t* chosen, double* sums);
  void (*pool_input_gradient)(const PooledRow&, const Coefficients<Number>&,
                              const NormTensors<Store>&, const uint8_t* chosen);
};

// The loops for the widest vectors (os/vector_set.h). Thread-safe.
template <typename Store>
const NormLoops<Store>& loops();

}  // namespace dtrain::kernels::batch_norm
